// SPDX-License-Identifier: Apache-2.0
#pragma once

#if MSSTREAM_NCCL

#include "comm/collective.hpp"
#include "comm/nccl/nccl_types_cuda.hpp"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>

namespace msstream::comm::detail {

/// The calls of NCCL for the collectives of one rank. A call returns when the collective is on its
/// stream. The first one of a kind, or of a size for which NCCL chooses another algorithm, first
/// connects GPUs, during which the host waits for the other ranks.
struct NcclCalls {
  ncclComm_t comm = nullptr;  ///< a communicator that blocks
  int rank = 0;
  int size = 1;
  /// Two bytes for each rank, on the device, for collectives without tensors. Their values do not
  /// matter.
  std::byte* scratch = nullptr;

  [[nodiscard]] ncclResult_t put(cudaStream_t stream, Part const& part) const {
    auto const& what = part.what;
    auto const count = static_cast<std::size_t>(what.count);
    auto const type = type_of(what.dtype);
    switch (what.kind) {
      case CollectiveKind::all_reduce:
        return ncclAllReduce(
            part.input, part.output, count, type, operation_of(what.reduction), comm, stream);
      case CollectiveKind::reduce_scatter:
        return ncclReduceScatter(
            part.input, part.output, count, type, operation_of(what.reduction), comm, stream);
      case CollectiveKind::all_gather:
        return ncclAllGather(part.input, part.output, count, type, comm, stream);
      case CollectiveKind::all_to_all:
        return exchange(stream, part.input, part.output, count, type);
      case CollectiveKind::all_to_all_counted:
        return exchange_counted(stream, part);
      case CollectiveKind::broadcast: {
        bool const is_root = what.peer == rank;
        return ncclBroadcast(is_root ? part.input : part.output,
                             is_root ? const_cast<void*>(part.input) : part.output,
                             count,
                             type,
                             what.peer,
                             comm,
                             stream);
      }
      case CollectiveKind::send:
        return ncclSend(part.input, count, type, what.peer, comm, stream);
      case CollectiveKind::receive:
        return ncclRecv(part.output, count, type, what.peer, comm, stream);
      case CollectiveKind::barrier:
        break;
    }
    return ncclAllReduce(scratch, scratch, 1, ncclUint8, ncclMax, comm, stream);
  }

 private:
  /// Exchanges equal parts of two tensors of `count` elements.
  [[nodiscard]] ncclResult_t exchange(cudaStream_t stream,
                                      void const* input,
                                      void* output,
                                      std::size_t count,
                                      ncclDataType_t type) const {
    auto const ranks = static_cast<std::size_t>(size);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
    return ncclAlltoAll(input, output, count / ranks, type, comm, stream);
#else
    return in_a_group([&] {
      return exchange_by_pairs(stream, input, output, count / ranks, bytes_of_type(type), type);
    });
#endif
  }

  /// Exchanges the counts, and the rows up to the capacity: NCCL takes counts from the host alone.
  [[nodiscard]] ncclResult_t exchange_counted(cudaStream_t stream, Part const& part) const {
    auto const ranks = static_cast<std::size_t>(size);
    return in_a_group([&] {
      auto const result = exchange_by_pairs(stream,
                                            part.input,
                                            part.output,
                                            static_cast<std::size_t>(part.what.count) / ranks,
                                            bytes_of(part.what.dtype),
                                            type_of(part.what.dtype));
      return worse_of(result,
                      exchange_by_pairs(
                          stream, part.counts, part.received, 1, sizeof(*part.counts), ncclInt64));
    });
  }

  /// Sends the part of `count` elements of each rank, and receives its. To be called in a group.
  [[nodiscard]] ncclResult_t exchange_by_pairs(cudaStream_t stream,
                                               void const* input,
                                               void* output,
                                               std::size_t count,
                                               std::size_t element_bytes,
                                               ncclDataType_t type) const {
    auto result = ncclSuccess;
    for (int other = 0; other < size; ++other) {
      auto const at = static_cast<std::size_t>(other) * count * element_bytes;
      result = worse_of(
          result,
          ncclSend(static_cast<std::byte const*>(input) + at, count, type, other, comm, stream));
      result = worse_of(
          result, ncclRecv(static_cast<std::byte*>(output) + at, count, type, other, comm, stream));
    }
    return result;
  }

  template <class Calls>
  [[nodiscard]] static ncclResult_t in_a_group(Calls const& calls) {
    auto result = ncclGroupStart();
    if (result == ncclSuccess) {
      result = calls();
      result = worse_of(result, ncclGroupEnd());
    }
    return result;
  }
  /// Returns the first of two results that is a failure.
  [[nodiscard]] static ncclResult_t worse_of(ncclResult_t a, ncclResult_t b) {
    return a != ncclSuccess ? a : b;
  }

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 28, 0)
  [[nodiscard]] static std::size_t bytes_of_type(ncclDataType_t type) {
    return type == ncclUint8                             ? 1
           : type == ncclFloat16 || type == ncclBfloat16 ? 2
           : type == ncclInt64                           ? 8
                                                         : 4;
  }
#endif
};

}  // namespace msstream::comm::detail

#endif
