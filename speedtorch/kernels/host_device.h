/// Functions that run on the host and on a GPU alike.
#pragma once

#ifdef __CUDACC__
#define SPEEDTORCH_HOST_DEVICE __host__ __device__
#else
#define SPEEDTORCH_HOST_DEVICE
#endif

/// Besides always part of the loop that calls them: compiled for the instructions of that.
#define SPEEDTORCH_INLINE SPEEDTORCH_HOST_DEVICE inline __attribute__((always_inline))
