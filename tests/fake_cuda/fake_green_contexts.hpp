// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

/// Fake green contexts of a device with 132 multiprocessors, which it splits into parts of a
/// multiple of 8, like an H100.
namespace fake_cuda {

/// Returns the number of multiprocessors on which the kernels of a stream run.
[[nodiscard]] unsigned multiprocessors_of(cudaStream_t stream);

CUresult get_dev_resource(CUdevice device, CUdevResource* resource, CUdevResourceType type);
CUresult split_by_count(CUdevResource* parts,
                        unsigned* count,
                        CUdevResource const* all,
                        CUdevResource* rest,
                        unsigned flags,
                        unsigned least);
CUresult generate_desc(CUdevResourceDesc* desc, CUdevResource* resources, unsigned count);
CUresult create_green_context(CUgreenCtx* context,
                              CUdevResourceDesc desc,
                              CUdevice device,
                              unsigned flags);
CUresult destroy_green_context(CUgreenCtx context);
CUresult create_green_stream(CUstream* stream, CUgreenCtx context, unsigned flags, int priority);

}  // namespace fake_cuda
