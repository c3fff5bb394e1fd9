#include "tests/emulated_gpu/runtime/streams.h"

#include <chrono>

#include "tests/emulated_gpu/fault.h"
#include "tests/emulated_gpu/runtime/messages.h"
#include "tests/emulated_gpu/runtime/runtime.h"

namespace emulated_gpu {
namespace {

thread_local bool working = false;

double now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(since).count();
}

bool pending(const CUstream_st& stream) { return stream.last != nullptr && !stream.last->done(); }

void run_body(const Work& work, const std::function<void()>& body) {
  working = true;
  try {
    if (settings().trace) say("run " + work.what);
    body();
  } catch (const Fault& fault) {
    say(text("FAULT in ", work.what, ": ", fault.what()));
    runtime().fail(static_cast<cudaError_t>(fault.code));
  }
  working = false;
}

}  // namespace

bool in_work() { return working; }

Streams::Streams() {
  for (std::size_t device = 0; device < legacy_.size(); ++device) {
    legacy_[device] = std::make_shared<CUstream_st>();
    legacy_[device]->device = static_cast<int>(device);
    legacy_[device]->legacy = true;
  }
}

CUstream_st* Streams::create(int device, unsigned flags, int priority) {
  auto stream = std::make_shared<CUstream_st>();
  stream->device = device;
  stream->flags = flags;
  stream->blocking = (flags & cudaStreamNonBlocking) == 0;
  stream->priority = priority;
  CUstream_st* const handle = stream.get();
  streams_[handle] = std::move(stream);
  return handle;
}

void Streams::destroy(CUstream_st* stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  std::erase_if(destroyed_, [](const auto& one) { return !pending(*one); });
  if (pending(*stream)) destroyed_.insert(found->second);
  streams_.erase(found);
}

CUstream_st* Streams::find(cudaStream_t handle, int current_device) {
  if (handle == nullptr || handle == cudaStreamLegacy) return legacy(current_device);
  if (handle == cudaStreamPerThread) {
    auto& own = per_thread_[{std::this_thread::get_id(), current_device}];
    if (own == nullptr) own = create(current_device, cudaStreamDefault, 0);
    return own;
  }
  return streams_.count(handle) != 0 ? handle : nullptr;
}

std::shared_ptr<CUstream_st> Streams::owner(CUstream_st* stream) const {
  if (stream->legacy) return legacy_[static_cast<std::size_t>(stream->device)];
  return streams_.at(stream);
}

WorkPointer Streams::push(CUstream_st* stream, std::string what, std::function<void()> run) {
  auto work = std::make_shared<Work>();
  work->what = std::move(what);
  work->run = std::move(run);
  work->stream = owner(stream);
  if (stream->legacy) {
    for (const auto& [handle, other] : streams_) {
      if (other->blocking && other->device == stream->device && pending(*other))
        work->after.push_back(other->last);
    }
    for (const auto& other : destroyed_) {
      if (other->blocking && other->device == stream->device && pending(*other))
        work->after.push_back(other->last);
    }
  } else if (stream->blocking && pending(*legacy(stream->device))) {
    work->after.push_back(legacy(stream->device)->last);
  }
  stream->queue.push_back(work);
  stream->last = work;
  return work;
}

/// Runs the first work of a stream. The lock is let go meanwhile, and while what the work held is destroyed.
void Streams::step(Lock& lock, const WorkPointer& work) {
  work->state = Work::State::running;
  std::function<void()> body = std::move(work->run);
  work->run = nullptr;
  lock.unlock();
  if (body && runtime().sticky() == cudaSuccess) run_body(*work, body);
  lock.lock();
  work->milliseconds = now();
  work->state = Work::State::done;
  work->stream->queue.pop_front();
  changed_.notify_all();
  lock.unlock();
  body = nullptr;
  lock.lock();
}

void Streams::progress(Lock& lock, const WorkPointer& work) {
  // A list of goals instead of a recursion: streams that wait for each other in turn make long chains.
  std::vector<WorkPointer> goals{work};
  while (!goals.back()->done()) {
    const WorkPointer first = goals.back()->stream->queue.front();
    if (first->state == Work::State::running) {
      changed_.wait(lock);
      return;
    }
    std::erase_if(first->after, [](const auto& before) { return before->done(); });
    if (first->after.empty()) {
      step(lock, first);
      return;
    }
    goals.push_back(first->after.back());
  }
}

void Streams::finish(Lock& lock, const WorkPointer& work) {
  if (work == nullptr) return;
  std::vector<WorkPointer> goals{work};
  while (!goals.empty()) {
    const WorkPointer goal = goals.back();
    if (goal->done()) {
      goals.pop_back();
      continue;
    }
    const WorkPointer first = goal->stream->queue.front();
    if (first->state == Work::State::running) {
      changed_.wait(lock);
      continue;
    }
    std::erase_if(first->after, [](const auto& before) { return before->done(); });
    if (first->after.empty()) {
      step(lock, first);
    } else {
      goals.push_back(first->after.back());
    }
  }
}

void Streams::finish_stream(Lock& lock, CUstream_st* stream) { finish(lock, WorkPointer(stream->last)); }

void Streams::finish_device(Lock& lock, int device) {
  std::vector<WorkPointer> all{legacy(device)->last};
  for (const auto& [handle, stream] : streams_) {
    if (stream->device == device) all.push_back(stream->last);
  }
  for (const auto& stream : destroyed_) {
    if (stream->device == device) all.push_back(stream->last);
  }
  for (const auto& work : all) finish(lock, work);
}

void Streams::finish_all(Lock& lock) {
  for (int device = 0; device < settings().devices; ++device) finish_device(lock, device);
}

bool Streams::legacy_meets_capture(const CUstream_st* legacy_stream) const {
  for (const auto& [handle, stream] : streams_) {
    if (stream->capture != nullptr && stream->blocking && stream->device == legacy_stream->device)
      return true;
  }
  return false;
}

}  // namespace emulated_gpu
