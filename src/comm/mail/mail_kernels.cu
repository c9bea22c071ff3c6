// SPDX-License-Identifier: Apache-2.0
#include "comm/mail/mail.cuh"
#include "comm/mail/mail_reductions.cuh"
#include "comm/mail/mailboxes.hpp"
#include "common/launch.cuh"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace msstream::comm::detail {
namespace {

using ops::kernels::ceil_div;
using ops::kernels::check_cuda;
using ops::kernels::check_launch;

/// Parts of tensors that one rank sends to each other rank and gets from it, all of equally many
/// bytes.
struct Copies {
  std::byte const* input;
  std::byte* output;
  std::size_t bytes;         ///< of a part
  std::size_t input_stride;  ///< bytes from a rank's part of the input to the next one's
  std::size_t output_stride;
  unsigned sends_to;  ///< a bit for each rank
  unsigned gets_from;
  bool copies_own;
};

__global__ void __launch_bounds__(kMailThreads, 1)
    copy_by_mail(__grid_constant__ Mailboxes const boxes, __grid_constant__ Copies const copies) {
  __shared__ BlockMail mail;
  mail.begin(boxes);
  auto const range = BlockRange::of(copies.bytes);
  auto const pieces = range.pieces(boxes.piece_bytes, 1);
  if (int const i = static_cast<int>(threadIdx.x); i < mail.count) {
    auto& peer = mail.peers[i];
    peer.to_send = (copies.sends_to >> peer.rank & 1U) != 0 ? pieces : 0;
    peer.to_get = (copies.gets_from >> peer.rank & 1U) != 0 ? pieces : 0;
  }
  __syncthreads();
  auto const size_of = [&](int piece) {
    auto const left = range.bytes - piece * boxes.piece_bytes;
    return left < boxes.piece_bytes ? left : boxes.piece_bytes;
  };
  auto const part = [&](auto* of, std::size_t stride, int rank, int piece) {
    return of + rank * stride + range.begin + piece * boxes.piece_bytes;
  };
  exchange_pieces(
      boxes,
      mail,
      copies.copies_own ? pieces : 0,
      [&](int peer, int piece) {
        move_bytes(mail.slot_there(peer, piece) + Mailboxes::kLine,
                   part(copies.input, copies.input_stride, mail.peers[peer].rank, piece),
                   size_of(piece));
      },
      [&](int piece) {
        for (int peer = 0; peer < mail.count; ++peer) {
          if (piece < mail.peers[peer].to_get) {
            move_bytes(part(copies.output, copies.output_stride, mail.peers[peer].rank, piece),
                       mail.slot_here(peer, piece) + Mailboxes::kLine,
                       size_of(piece));
          }
        }
        return true;
      },
      [&](int piece) {
        move_bytes(part(copies.output, copies.output_stride, boxes.rank, piece),
                   part(copies.input, copies.input_stride, boxes.rank, piece),
                   size_of(piece));
      });
}

/// Rows for each rank, of which the first of each part are sent, as many as `counts` says.
struct CountedRows {
  std::byte const* input;
  std::byte* output;
  std::int64_t const* counts;
  std::int64_t* received;
  std::int64_t capacity;
  std::size_t row_bytes;
};

__device__ bool is_in_range(CountedRows const& rows, std::int64_t count) {
  return count >= 0 && count <= rows.capacity;
}
/// Tells the host of a count that is out of range, unless it has been told of one. By one thread.
__device__ void report(
    Mailboxes const& boxes, CountedRows const& rows, int from, int to, std::int64_t count) {
  auto* const fault = static_cast<int volatile*>(&boxes.signals->fault);
  if (is_in_range(rows, count) || *fault != 0) {
    return;
  }
  boxes.signals->from = from;
  boxes.signals->to = to;
  boxes.signals->count = count;
  boxes.signals->capacity = rows.capacity;
  __threadfence_system();
  *fault = 1;
}

/// The first slot for a rank begins with the count of its rows, which the receiver does not know.
/// Of a count out of range no rows are sent, and both ranks tell their hosts.
__global__ void __launch_bounds__(kMailThreads, 1)
    rows_by_mail(__grid_constant__ Mailboxes const boxes,
                 __grid_constant__ CountedRows const rows) {
  __shared__ BlockMail mail;
  __shared__ std::int64_t told_rows[Mailboxes::kMostRanks];  ///< as the counts say
  __shared__ std::int64_t sent_rows[Mailboxes::kMostRanks];
  __shared__ std::int64_t got_rows[Mailboxes::kMostRanks];
  __shared__ std::int64_t told_here[Mailboxes::kMostPeers];
  mail.begin(boxes);
  auto const range_of = [&](std::int64_t count) {
    return BlockRange::of(static_cast<std::size_t>(count) * rows.row_bytes);
  };
  if (int const rank = static_cast<int>(threadIdx.x); rank < boxes.size) {
    told_rows[rank] = rows.counts[rank];
    sent_rows[rank] = is_in_range(rows, told_rows[rank]) ? told_rows[rank] : 0;
  }
  __syncthreads();
  if (int const i = static_cast<int>(threadIdx.x); i < mail.count) {
    auto& peer = mail.peers[i];
    peer.to_send = range_of(sent_rows[peer.rank]).pieces(boxes.piece_bytes, 1);
    peer.to_get = 1;  // at least, for the number of rows
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    rows.received[boxes.rank] = sent_rows[boxes.rank];
    for (int rank = 0; rank < boxes.size; ++rank) {
      report(boxes, rows, boxes.rank, rank, told_rows[rank]);
    }
  }
  __syncthreads();
  auto const part_bytes = static_cast<std::size_t>(rows.capacity) * rows.row_bytes;
  auto const size_of = [&](BlockRange range, int piece) {
    auto const left = range.bytes - piece * boxes.piece_bytes;
    return left < boxes.piece_bytes ? left : boxes.piece_bytes;
  };
  auto const part = [&](auto* of, BlockRange range, int rank, int piece) {
    return of + rank * part_bytes + range.begin + piece * boxes.piece_bytes;
  };
  auto const own_range = range_of(sent_rows[boxes.rank]);
  exchange_pieces(
      boxes,
      mail,
      own_range.pieces(boxes.piece_bytes),
      [&](int peer, int piece) {
        int const rank = mail.peers[peer].rank;
        auto const range = range_of(sent_rows[rank]);
        auto* const slot = mail.slot_there(peer, piece);
        if (team_thread() == 0 && piece == 0) {
          *reinterpret_cast<std::int64_t*>(slot) = told_rows[rank];
        }
        move_bytes(
            slot + Mailboxes::kLine, part(rows.input, range, rank, piece), size_of(range, piece));
      },
      [&](int piece) {
        if (piece == 0) {
          if (int const i = team_thread(); i < mail.count) {
            auto& peer = mail.peers[i];
            auto const told = __ldcg(reinterpret_cast<long long const*>(mail.slot_here(i, 0)));
            auto const count = is_in_range(rows, told) ? told : 0;
            told_here[i] = told;
            got_rows[peer.rank] = count;
            peer.to_get = range_of(count).pieces(boxes.piece_bytes, 1);
            if (blockIdx.x == 0) {
              rows.received[peer.rank] = count;
            }
          }
          synchronize_team();
          if (blockIdx.x == 0 && team_thread() == 0) {
            for (int peer = 0; peer < mail.count; ++peer) {
              report(boxes, rows, mail.peers[peer].rank, boxes.rank, told_here[peer]);
            }
          }
        }
        for (int peer = 0; peer < mail.count; ++peer) {
          if (piece < mail.peers[peer].to_get) {
            int const rank = mail.peers[peer].rank;
            auto const range = range_of(got_rows[rank]);
            move_bytes(part(rows.output, range, rank, piece),
                       mail.slot_here(peer, piece) + Mailboxes::kLine,
                       size_of(range, piece));
          }
        }
        return true;
      },
      [&](int piece) {
        move_bytes(part(rows.output, own_range, boxes.rank, piece),
                   part(rows.input, own_range, boxes.rank, piece),
                   size_of(own_range, piece));
      });
}

/// Returns the bytes that a rank gives to each other one.
[[nodiscard]] std::size_t bytes_for_each(Collective const& what, int ranks) {
  auto const bytes = static_cast<std::size_t>(what.count) * bytes_of(what.dtype);
  bool const is_divided =
      what.kind == CollectiveKind::all_to_all || what.kind == CollectiveKind::all_to_all_counted;
  return is_divided ? bytes / static_cast<std::size_t>(ranks) : bytes;
}

/// Returns the number of blocks: one for each so many bytes that a block's way to another rank
/// takes about as long as its copies.
[[nodiscard]] unsigned blocks_for(std::size_t bytes, int most) {
  constexpr std::size_t kBytesOfBlock = std::size_t{4} << 10U;
  auto const wanted = ceil_div(bytes, kBytesOfBlock);
  return static_cast<unsigned>(
      std::clamp(wanted, std::size_t{1}, static_cast<std::size_t>(std::max(most, 1))));
}

}  // namespace

void put_by_mail(msstream::detail::NativeStream stream,
                 Mailboxes const& boxes,
                 Part const& part,
                 int most_blocks) {
  auto const& what = part.what;
  auto const bytes = bytes_for_each(what, boxes.size);
  auto const blocks = blocks_for(bytes, std::min(most_blocks, boxes.blocks));
  auto* const on = static_cast<cudaStream_t>(stream);
  auto const all = (1U << static_cast<unsigned>(boxes.size)) - 1U;
  auto const others = all & ~(1U << static_cast<unsigned>(boxes.rank));
  Copies copies{.input = static_cast<std::byte const*>(part.input),
                .output = static_cast<std::byte*>(part.output),
                .bytes = bytes,
                .input_stride = 0,
                .output_stride = bytes,
                .sends_to = others,
                .gets_from = others,
                .copies_own = false};
  auto const only = [&](int rank) { return 1U << static_cast<unsigned>(rank); };
  switch (what.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter:
      return reduce_by_mail(on, boxes, part, blocks);
    case CollectiveKind::all_to_all_counted: {
      CountedRows const rows{
          .input = copies.input,
          .output = copies.output,
          .counts = part.counts,
          .received = part.received,
          .capacity = what.capacity,
          .row_bytes = what.capacity == 0 ? 0 : bytes / static_cast<std::size_t>(what.capacity)};
      rows_by_mail<<<blocks, kMailThreads, 0, on>>>(boxes, rows);
      return check_launch("rows_by_mail");
    }
    case CollectiveKind::all_gather:
      copies.copies_own =
          copies.output + static_cast<std::size_t>(boxes.rank) * bytes != copies.input;
      break;
    case CollectiveKind::all_to_all:
      copies.input_stride = bytes;
      copies.copies_own = true;
      break;
    case CollectiveKind::broadcast:
      copies.output_stride = 0;
      copies.sends_to = what.peer == boxes.rank ? others : 0;
      copies.gets_from = what.peer == boxes.rank ? 0 : only(what.peer);
      break;
    case CollectiveKind::send:
    case CollectiveKind::receive:
      throw std::logic_error("a collective between two ranks by mail");
    case CollectiveKind::barrier:
      copies.bytes = 0;
      break;
  }
  copy_by_mail<<<blocks, kMailThreads, 0, on>>>(boxes, copies);
  check_launch("copy_by_mail");
}

void load_mail_kernels() {
  cudaFuncAttributes attributes{};
  check_cuda(cudaFuncGetAttributes(&attributes, copy_by_mail), "cudaFuncGetAttributes");
  check_cuda(cudaFuncGetAttributes(&attributes, rows_by_mail), "cudaFuncGetAttributes");
  load_mail_reductions();
}

}  // namespace msstream::comm::detail
