// Streams, events and captures, and the work in them.
#pragma once
#include <cuda_runtime_api.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace emulated_gpu {

/// One piece of work of a stream.
struct Work {
  enum class State { waiting, running, done };
  std::string what;
  std::function<void()> run;  ///< may be empty
  std::vector<std::shared_ptr<Work>> after;
  std::shared_ptr<CUstream_st> stream;
  State state = State::waiting;
  double milliseconds = 0;  ///< when it was done

  [[nodiscard]] bool done() const { return state == State::done; }
};
using WorkPointer = std::shared_ptr<Work>;

/// One piece of a graph's work, in the order of its launch.
struct Node {
  std::string what;
  std::function<void()> run;
};

/// How many nodes of each stream come before a point of a capture.
using Progress = std::map<const CUstream_st*, std::size_t>;

/// Streams that are being captured into one graph.
struct Capture {
  unsigned long long id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  CUstream_st* origin = nullptr;
  std::map<CUstream_st*, Progress> streams;
  std::vector<Node> nodes;
  bool invalid = false, ended = false;
};

}  // namespace emulated_gpu

struct CUstream_st {
  int device = 0;
  bool blocking = true;  ///< it and the legacy default stream wait for each other
  bool legacy = false;   ///< the legacy default stream
  int priority = 0;
  unsigned flags = 0;
  std::deque<emulated_gpu::WorkPointer> queue;
  emulated_gpu::WorkPointer last;
  std::shared_ptr<emulated_gpu::Capture> capture;
};

struct CUevent_st {
  unsigned flags = 0;
  int device = 0;
  emulated_gpu::WorkPointer recorded;
  std::shared_ptr<emulated_gpu::Capture> capture;  ///< where it was recorded last, if in one
  emulated_gpu::Progress progress;                 ///< of that capture
};

struct CUgraph_st {
  std::vector<emulated_gpu::Node> nodes;
};

struct CUgraphExec_st {
  std::vector<emulated_gpu::Node> nodes;
};
