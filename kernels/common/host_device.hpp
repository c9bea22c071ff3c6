// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks a function that both the host and the GPU can call.
#if defined(__CUDACC__)
#define MSSTREAM_HOST_DEVICE __host__ __device__
#else
#define MSSTREAM_HOST_DEVICE
#endif
