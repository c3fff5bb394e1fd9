// A page that was opened from disk may not start a worker. There, a frame runs the worker's script instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.answer = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const address = String(url).replace(/&/g, "&amp;").replace(/"/g, "&quot;");
      this.frame.srcdoc = `<script>postMessage = (data) => frameElement.answer(data)</script><script src="${address}"></script>`;
      this.ready = new Promise((resolve) => this.frame.addEventListener("load", resolve, { once: true }));
      const add = () => document.body.append(this.frame);
      if (document.body) add();
      else addEventListener("DOMContentLoaded", add);
    }
    postMessage(data) {
      this.ready.then(() => {
        const inside = this.frame.contentWindow;
        inside.dispatchEvent(new inside.MessageEvent("message", { data }));
      });
    }
    terminate() {
      this.frame.remove();
    }
  };
}
