/// Functions that run on the host and on a GPU alike.
#pragma once

#ifdef __CUDACC__
#define SPEEDTORCH_HOST_DEVICE __host__ __device__
#else
#define SPEEDTORCH_HOST_DEVICE
#endif

/// Also always inlined, and so compiled for the instruction set of the calling loop.
#define SPEEDTORCH_INLINE SPEEDTORCH_HOST_DEVICE inline __attribute__((always_inline))
