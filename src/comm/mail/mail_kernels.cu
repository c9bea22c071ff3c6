// SPDX-License-Identifier: Apache-2.0
#include "comm/mail/mail.cuh"
#include "comm/mail/mail_reductions.cuh"
#include "comm/mail/mailboxes.hpp"
#include "common/launch.cuh"

#include <algorithm>
#include <source_location>
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
  auto const input_for = [&](int rank) { return copies.input + rank * copies.input_stride; };
  auto const output_of = [&](int rank) { return copies.output + rank * copies.output_stride; };
  exchange_pieces(
      boxes,
      mail,
      copies.copies_own ? pieces : 0,
      [&](int peer, int number) {
        auto const piece = range.piece(number, boxes.piece_bytes);
        move_bytes(mail.slot_there(peer, number) + Mailboxes::kLine,
                   input_for(mail.peers[peer].rank) + piece.begin,
                   piece.bytes);
      },
      [&](int number) {
        auto const piece = range.piece(number, boxes.piece_bytes);
        for (int peer = 0; peer < mail.count; ++peer) {
          if (number < mail.peers[peer].to_get) {
            move_bytes(output_of(mail.peers[peer].rank) + piece.begin,
                       mail.slot_here(peer, number) + Mailboxes::kLine,
                       piece.bytes);
          }
        }
        return true;
      },
      [&](int number) {
        auto const piece = range.piece(number, boxes.piece_bytes);
        move_bytes(
            output_of(boxes.rank) + piece.begin, input_for(boxes.rank) + piece.begin, piece.bytes);
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
  std::source_location issued_at;  ///< which the kernel hands to the host, and does not read
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
  boxes.signals->issued_at = rows.issued_at;
  __threadfence_system();
  *fault = 1;
}

/// The first slot for a rank begins with the count of its rows, which the receiver does not know.
/// If a count is out of range, no rows are sent, and both ranks tell their hosts.
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
  auto const own_range = range_of(sent_rows[boxes.rank]);
  exchange_pieces(
      boxes,
      mail,
      own_range.pieces(boxes.piece_bytes),
      [&](int peer, int number) {
        int const rank = mail.peers[peer].rank;
        auto const piece = range_of(sent_rows[rank]).piece(number, boxes.piece_bytes);
        auto* const slot = mail.slot_there(peer, number);
        if (team_thread() == 0 && number == 0) {
          *reinterpret_cast<std::int64_t*>(slot) = told_rows[rank];
        }
        move_bytes(
            slot + Mailboxes::kLine, rows.input + rank * part_bytes + piece.begin, piece.bytes);
      },
      [&](int number) {
        if (number == 0) {
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
          if (number < mail.peers[peer].to_get) {
            int const rank = mail.peers[peer].rank;
            auto const piece = range_of(got_rows[rank]).piece(number, boxes.piece_bytes);
            move_bytes(rows.output + rank * part_bytes + piece.begin,
                       mail.slot_here(peer, number) + Mailboxes::kLine,
                       piece.bytes);
          }
        }
        return true;
      },
      [&](int number) {
        auto const piece = own_range.piece(number, boxes.piece_bytes);
        auto const at = boxes.rank * part_bytes + piece.begin;
        move_bytes(rows.output + at, rows.input + at, piece.bytes);
      });
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
          .row_bytes = what.capacity == 0 ? 0 : bytes / static_cast<std::size_t>(what.capacity),
          .issued_at = part.issued_at};
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
      copies.gets_from = what.peer == boxes.rank ? 0 : 1U << static_cast<unsigned>(what.peer);
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
