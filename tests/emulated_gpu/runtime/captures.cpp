#include "tests/emulated_gpu/runtime/captures.h"

#include <algorithm>

#include "tests/emulated_gpu/runtime/messages.h"

namespace emulated_gpu {
namespace {

void merge(Progress& to, const Progress& from) {
  for (const auto& [stream, count] : from) to[stream] = std::max(to[stream], count);
}

/// Returns a stream whose last node does not come before the end of the stream where the capture began, or
/// null.
const CUstream_st* unjoined(const Capture& capture) {
  const auto& known = capture.streams.at(capture.origin);
  for (const auto& [stream, progress] : capture.streams) {
    const auto own = progress.find(stream);
    if (own == progress.end()) continue;
    const auto seen = known.find(stream);
    if (seen == known.end() || seen->second < own->second) return stream;
  }
  return nullptr;
}

}  // namespace

cudaError_t Captures::begin(CUstream_st* stream, cudaStreamCaptureMode mode) {
  if (stream->legacy) {
    say("cudaStreamBeginCapture of the legacy default stream, which cannot be captured");
    return cudaErrorStreamCaptureUnsupported;
  }
  if (stream->capture != nullptr) return cudaErrorIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->id = ++last_id_;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream;
  capture->streams[stream];
  stream->capture = capture;
  captures_.push_back(std::move(capture));
  return cudaSuccess;
}

cudaError_t Captures::end(CUstream_st* stream, std::vector<Node>* nodes) {
  const auto capture = stream->capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin != stream) return cudaErrorStreamCaptureUnmatched;
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
    return cudaErrorStreamCaptureWrongThread;
  const bool joined = unjoined(*capture) == nullptr;
  for (const auto& [one, progress] : capture->streams) one->capture = nullptr;
  std::erase(captures_, capture);
  capture->ended = true;
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!joined) {
    say("cudaStreamEndCapture: work of another stream of the capture was not waited for");
    return cudaErrorStreamCaptureUnjoined;
  }
  *nodes = std::move(capture->nodes);
  return cudaSuccess;
}

void Captures::add(CUstream_st* stream, std::string what, std::function<void()> run) {
  auto& capture = *stream->capture;
  capture.nodes.push_back({std::move(what), std::move(run)});
  ++capture.streams[stream][stream];
}

void Captures::record(CUevent_st* event, CUstream_st* stream) {
  event->capture = stream->capture;
  event->progress = stream->capture->streams[stream];
}

cudaError_t Captures::wait(CUstream_st* stream, const CUevent_st* event) {
  if (stream->legacy) return cudaErrorStreamCaptureImplicit;
  if (stream->capture != nullptr && stream->capture != event->capture) {
    stream->capture->invalid = event->capture->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  if (event->capture->ended && stream->capture == nullptr) return cudaErrorCapturedEvent;
  stream->capture = event->capture;
  merge(event->capture->streams[stream], event->progress);
  return cudaSuccess;
}

bool Captures::forbid(const char* call, cudaStreamCaptureMode mode_of_thread) {
  if (mode_of_thread == cudaStreamCaptureModeRelaxed) return false;
  bool forbidden = false;
  for (const auto& capture : captures_) {
    const bool own =
        capture->thread == std::this_thread::get_id() && capture->mode != cudaStreamCaptureModeRelaxed;
    const bool other =
        capture->mode == cudaStreamCaptureModeGlobal && mode_of_thread == cudaStreamCaptureModeGlobal;
    if (!own && !other) continue;
    capture->invalid = forbidden = true;
  }
  if (forbidden) say(text(call, " while a stream is captured: refused, and the capture is invalid"));
  return forbidden;
}

void Captures::spoil(int device) {
  for (const auto& capture : captures_) {
    for (const auto& [stream, progress] : capture->streams) {
      if (stream->blocking && stream->device == device) capture->invalid = true;
    }
  }
}

}  // namespace emulated_gpu
