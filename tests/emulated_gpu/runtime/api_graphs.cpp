// CUDA's functions for captures and graphs. A graph is a list: its nodes run in the order in which they were
// captured.
#include "tests/emulated_gpu/runtime/cuda_api.h"

#include "tests/emulated_gpu/runtime/messages.h"
#include "tests/emulated_gpu/runtime/runtime.h"

using namespace emulated_gpu;

namespace {

cudaStreamCaptureStatus status_of(const CUstream_st& stream) {
  if (stream.capture == nullptr) return cudaStreamCaptureStatusNone;
  return stream.capture->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
}

template <class Body>
cudaError_t with_stream(const char* name, cudaStream_t handle, Body body) {
  return call(name, [&](Runtime& all, Lock&) {
    auto* const stream = all.streams.find(handle, thread_state().device);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : body(all, *stream);
  });
}

cudaError_t instantiate(const char* name, cudaGraphExec_t* executable, cudaGraph_t graph) {
  return call(name, [&](Runtime&, Lock&) {
    if (executable == nullptr || graph == nullptr) return cudaErrorInvalidValue;
    *executable = new CUgraphExec_st{graph->nodes};
    return cudaSuccess;
  });
}

/// The nodes are destroyed outside of the lock: what they hold may call back.
template <class Graph>
cudaError_t destroy(const char* name, Graph* graph) {
  const auto error =
      call(name, [&](Runtime&, Lock&) { return graph == nullptr ? cudaErrorInvalidValue : cudaSuccess; });
  delete graph;
  return error;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return with_stream(__func__, handle,
                     [&](Runtime& all, CUstream_st& stream) { return all.captures.begin(&stream, mode); });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  *graph = nullptr;
  return with_stream(__func__, handle, [&](Runtime& all, CUstream_st& stream) {
    std::vector<Node> nodes;
    const auto error = all.captures.end(&stream, &nodes);
    if (error == cudaSuccess) *graph = new CUgraph_st{std::move(nodes)};
    return error;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return with_stream(__func__, handle, [&](Runtime& all, CUstream_st& stream) {
    *status = status_of(stream);
    // CUDA cannot tell for the legacy stream while a stream that it waits for is captured.
    if (stream.legacy && all.streams.legacy_meets_capture(&stream)) return cudaErrorStreamCaptureImplicit;
    return cudaSuccess;
  });
}

/// The graph and its nodes are not told: nothing that is emulated can use them.
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                                     std::size_t* count) {
  return with_stream(__func__, handle, [&](Runtime& all, CUstream_st& stream) {
    if (stream.legacy && all.streams.legacy_meets_capture(&stream)) return cudaErrorStreamCaptureImplicit;
    *status = status_of(stream);
    if (id != nullptr) *id = stream.capture == nullptr ? 0 : stream.capture->id;
    if (graph != nullptr) *graph = nullptr;
    if (dependencies != nullptr) *dependencies = nullptr;
    if (edges != nullptr) *edges = nullptr;
    if (count != nullptr) *count = 0;
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call(
      __func__,
      [&](Runtime&, Lock&) {
        std::swap(*mode, thread_state().capture_mode);
        return cudaSuccess;
      },
      Context::not_needed);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  return instantiate(__func__, executable, graph);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long) {
  return instantiate(__func__, executable, graph);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call(__func__, [&](Runtime& all, Lock& lock) {
    if (executable == nullptr) return cudaErrorInvalidValue;
    for (const auto& node : executable->nodes) {
      if (const auto error = enqueue(all, lock, stream, node.what, node.run); error != cudaSuccess)
        return error;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return destroy(__func__, graph); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) { return destroy(__func__, executable); }

/// Tells how many nodes there are; single nodes are not told.
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  return call(__func__, [&](Runtime&, Lock&) {
    if (graph == nullptr || count == nullptr) return cudaErrorInvalidValue;
    if (nodes != nullptr) {
      say("cudaGraphGetNodes: single nodes are not emulated");
      return cudaErrorNotSupported;
    }
    *count = graph->nodes.size();
    return cudaSuccess;
  });
}

}  // extern "C"
