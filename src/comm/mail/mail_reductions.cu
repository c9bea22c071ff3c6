// SPDX-License-Identifier: Apache-2.0
#include "comm/elements/combined.hpp"
#include "comm/mail/mail.cuh"
#include "comm/mail/mail_reductions.cuh"
#include "common/float_conversions.cuh"
#include "common/launch.cuh"

#include <msstream/base/dtype.hpp>

#include <type_traits>

namespace msstream::comm::detail {
namespace {

using ops::kernels::check_cuda;
using ops::kernels::check_launch;

template <class T>
__device__ Combined<T> widened(T value) {
  if constexpr (std::is_integral_v<T>) {
    return value;
  } else {
    return ops::kernels::widen(value);
  }
}
template <class T>
__device__ T narrowed(Combined<T> value) {
  if constexpr (std::is_integral_v<T>) {
    return value;
  } else {
    return ops::kernels::narrowed<T>(value);
  }
}

/// As many elements as are loaded at once.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Vector {
  T elements[kCount];
};
template <class T, int kCount>
__device__ Vector<T, kCount> loaded(std::byte const* from) {
  using Bits = std::conditional_t<
      sizeof(Vector<T, kCount>) == 16,
      uint4,
      std::conditional_t<
          sizeof(T) == 8,
          unsigned long long,
          std::conditional_t<sizeof(T) == 4,
                             unsigned,
                             std::conditional_t<sizeof(T) == 2, unsigned short, unsigned char>>>>;
  auto const bits = __ldcg(reinterpret_cast<Bits const*>(from));
  Vector<T, kCount> vector;
  static_assert(sizeof(vector) == sizeof(bits));
  memcpy(&vector, &bits, sizeof(bits));
  return vector;
}

/// The elements of all ranks, of one piece.
struct Inputs {
  std::byte const* const* of_rank;
  int size;
  Reduction reduction;
};

/// The elements of all ranks at one place, kCount of them, as they are combined.
template <class T, int kCount>
struct Sum {
  Combined<T> elements[kCount];

  __device__ void add(Vector<T, kCount> const& vector, int rank, Reduction reduction) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      auto const value = widened(vector.elements[k]);
      elements[k] = rank == 0 ? value : combined(elements[k], value, reduction);
    }
  }
  [[nodiscard]] __device__ Vector<T, kCount> result(Inputs const& inputs) {
    Vector<T, kCount> result;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if constexpr (!std::is_integral_v<T>) {
        if (inputs.reduction == Reduction::mean) {
          elements[k] /= static_cast<float>(inputs.size);
        }
      }
      result.elements[k] = narrowed<T>(elements[k]);
    }
    return result;
  }
};

/// Combines the elements at [begin, end) of the ranks, kCount at a time, of which each thread loads
/// several before it combines them. `end - begin` is a multiple of kCount.
template <class T, int kCount>
__device__ void combine(Inputs const& inputs, std::byte* output, unsigned begin, unsigned end) {
  constexpr int kInFlight = sizeof(Combined<T>) * kCount > 16 ? 2 : 4;
  constexpr unsigned kStep = kTeamThreads * kCount;
  for (auto first = begin + static_cast<unsigned>(team_thread() * kCount); first < end;
       first += kInFlight * kStep) {
    Sum<T, kCount> sums[kInFlight];
    for (int rank = 0; rank < inputs.size; ++rank) {
      Vector<T, kCount> vectors[kInFlight] = {};
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (auto const at = first + i * kStep; at < end) {
          vectors[i] = loaded<T, kCount>(inputs.of_rank[rank] + std::size_t{at} * sizeof(T));
        }
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        sums[i].add(vectors[i], rank, inputs.reduction);
      }
    }
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) {
      if (auto const at = first + i * kStep; at < end) {
        *reinterpret_cast<Vector<T, kCount>*>(output + std::size_t{at} * sizeof(T)) =
            sums[i].result(inputs);
      }
    }
  }
}

struct Reduced {
  std::byte const* input;
  std::byte* output;
  std::size_t bytes;         ///< that are combined on each rank
  std::size_t input_stride;  ///< bytes from the part of the input for a rank to that for the next
  Reduction reduction;
};

template <class T>
__global__ void __launch_bounds__(kMailThreads, 1)
    combine_by_mail(__grid_constant__ Mailboxes const boxes,
                    __grid_constant__ Reduced const reduced) {
  __shared__ BlockMail mail;
  __shared__ std::byte const* of_rank[Mailboxes::kMostRanks];
  mail.begin(boxes);
  auto const range = BlockRange::of(reduced.bytes);
  auto const pieces = range.pieces(boxes.piece_bytes);
  if (int const i = static_cast<int>(threadIdx.x); i < mail.count) {
    mail.peers[i].to_send = mail.peers[i].to_get = pieces;
  }
  __syncthreads();
  auto const input_for = [&](int rank, BlockRange const& piece) {
    return reduced.input + rank * reduced.input_stride + piece.begin;
  };
  exchange_pieces(
      boxes,
      mail,
      0,
      [&](int peer, int number) {
        auto const piece = range.piece(number, boxes.piece_bytes);
        move_bytes(mail.slot_there(peer, number) + Mailboxes::kLine,
                   input_for(mail.peers[peer].rank, piece),
                   piece.bytes);
      },
      [&](int number) {
        if (!mail.wait_for_own(number)) {  // the output may be the input
          return false;
        }
        auto const piece = range.piece(number, boxes.piece_bytes);
        int const i = team_thread();
        if (i < mail.count) {
          of_rank[mail.peers[i].rank] = mail.slot_here(i, number) + Mailboxes::kLine;
        } else if (i == mail.count) {
          of_rank[boxes.rank] = input_for(boxes.rank, piece);
        }
        synchronize_team();
        constexpr int kAtOnce = 16 / sizeof(T);
        Inputs const inputs{of_rank, boxes.size, reduced.reduction};
        auto* const output = reduced.output + piece.begin;
        auto const count = static_cast<unsigned>(piece.bytes / sizeof(T));
        auto const places = reinterpret_cast<std::uintptr_t>(output) |
                            reinterpret_cast<std::uintptr_t>(of_rank[boxes.rank]);
        auto const in_vectors = places % 16 == 0 ? count / kAtOnce * kAtOnce : 0U;
        combine<T, kAtOnce>(inputs, output, 0, in_vectors);
        combine<T, 1>(inputs, output, in_vectors, count);
        synchronize_team();  // before the next piece's places
        return true;
      },
      [](int) {});
}

}  // namespace

void reduce_by_mail(cudaStream_t stream,
                    Mailboxes const& boxes,
                    Part const& part,
                    unsigned blocks) {
  auto const& what = part.what;
  auto const bytes = static_cast<std::size_t>(what.count) * bytes_of(what.dtype);
  Reduced const reduced{.input = static_cast<std::byte const*>(part.input),
                        .output = static_cast<std::byte*>(part.output),
                        .bytes = bytes,
                        .input_stride = what.kind == CollectiveKind::reduce_scatter ? bytes : 0,
                        .reduction = what.reduction};
  with_type(what.dtype, [&](auto of) {
    combine_by_mail<decltype(of)><<<blocks, kMailThreads, 0, stream>>>(boxes, reduced);
  });
  check_launch("combine_by_mail");
}

void load_mail_reductions() {
  for (auto const dtype : {DType::float32,
                           DType::float16,
                           DType::bfloat16,
                           DType::int32,
                           DType::int64,
                           DType::uint8}) {
    with_type(dtype, [](auto of) {
      cudaFuncAttributes attributes{};
      check_cuda(cudaFuncGetAttributes(&attributes, combine_by_mail<decltype(of)>),
                 "cudaFuncGetAttributes");
    });
  }
}

}  // namespace msstream::comm::detail
