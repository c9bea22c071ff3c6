// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/mail/mailboxes.hpp"

#include <cstddef>
#include <cstdint>

namespace msstream::comm::detail {

/// A block has two teams: one writes to the other ranks, and the other one reads what they have
/// written. What waits until its writes have arrived does not keep the other from reading.
inline constexpr int kTeamThreads = 256;
inline constexpr int kMailThreads = 2 * kTeamThreads;

__device__ inline bool is_sender() {
  return threadIdx.x < kTeamThreads;
}
__device__ inline int team_thread() {
  return static_cast<int>(threadIdx.x) % kTeamThreads;
}
/// Waits for all threads of the team.
__device__ inline void synchronize_team() {
  __syncwarp();  // the barrier counts whole warps
  asm volatile("bar.sync %0, %1;" ::"r"(is_sender() ? 1 : 2), "r"(kTeamThreads) : "memory");
}

__device__ inline std::uint64_t load_acquire(std::uint64_t const* from) {
  std::uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}
__device__ inline void store_release(std::uint64_t* to, std::uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
}

/// Copies elements, by all threads of the team. Reads past the first cache, which may have an older
/// state of a mailbox.
template <class T>
__device__ void move_elements(T* to, T const* from, unsigned count) {
  constexpr int kInFlight = 4;
  for (unsigned first = team_thread(); first < count; first += kInFlight * kTeamThreads) {
    T values[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (auto const at = first + k * kTeamThreads; at < count) {
        values[k] = __ldcg(from + at);
      }
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (auto const at = first + k * kTeamThreads; at < count) {
        to[at] = values[k];
      }
    }
  }
}

/// Copies a piece between places of any alignment, by all threads of the team.
__device__ inline void move_bytes(std::byte* to, std::byte const* from, std::size_t piece) {
  auto const bytes = static_cast<unsigned>(piece);
  auto const places = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  unsigned done = 0;
  if (places % sizeof(uint4) == 0) {
    unsigned const count = bytes / sizeof(uint4);
    move_elements(reinterpret_cast<uint4*>(to), reinterpret_cast<uint4 const*>(from), count);
    done = count * sizeof(uint4);
  } else if (places % sizeof(unsigned) == 0) {
    unsigned const count = bytes / sizeof(unsigned);
    move_elements(reinterpret_cast<unsigned*>(to), reinterpret_cast<unsigned const*>(from), count);
    done = count * sizeof(unsigned);
  } else if (places % sizeof(unsigned short) == 0) {
    unsigned const count = bytes / sizeof(unsigned short);
    move_elements(reinterpret_cast<unsigned short*>(to),
                  reinterpret_cast<unsigned short const*>(from),
                  count);
    done = count * sizeof(unsigned short);
  }
  move_elements(reinterpret_cast<unsigned char*>(to + done),
                reinterpret_cast<unsigned char const*>(from + done),
                bytes - done);
}

/// The bytes of a block, or of a piece of them: a range of those of all blocks.
struct BlockRange {
  std::size_t begin;
  std::size_t bytes;

  __device__ static BlockRange of(std::size_t bytes_of_all) {
    constexpr auto kUnit = Mailboxes::kLine;
    auto const each = (bytes_of_all + gridDim.x * kUnit - 1) / (gridDim.x * kUnit) * kUnit;
    auto const begin = each * blockIdx.x < bytes_of_all ? each * blockIdx.x : bytes_of_all;
    auto const rest = bytes_of_all - begin;
    return {begin, each < rest ? each : rest};
  }
  /// Returns the bytes of one of its pieces.
  [[nodiscard]] __device__ BlockRange piece(int number, std::size_t piece_bytes) const {
    auto const at = number * piece_bytes;
    auto const left = bytes - at;
    return {begin + at, left < piece_bytes ? left : piece_bytes};
  }
  /// Returns the number of pieces, at least `least`.
  [[nodiscard]] __device__ int pieces(std::size_t piece_bytes, int least = 0) const {
    auto const count = static_cast<int>((bytes + piece_bytes - 1) / piece_bytes);
    return count < least ? least : count;
  }
};

/// One block's traffic with the blocks of its number on the other ranks, which have indices from 0:
/// the ranks after this one, then those before it. What is sent to a rank is cut into pieces, each
/// as large as a slot. In shared memory.
struct BlockMail {
  struct Peer {
    std::byte* slots_there;  ///< this block's at the peer
    std::byte* slots_here;   ///< the peer's at this rank
    std::uint64_t* ready_there;
    std::uint64_t* ready_here;
    std::uint64_t* credit_there;
    std::uint64_t* credit_here;
    std::uint64_t* own;  ///< [0]: pieces sent so far, [1]: got, [2]: 1 if stopped, of peer 0
    std::uint64_t sent;  ///< before this kernel
    std::uint64_t got;
    int rank;
    int to_send;  ///< pieces of this kernel
    int to_get;
  };

  Peer peers[Mailboxes::kMostPeers];
  int count;
  std::size_t piece_bytes;
  int volatile written;  ///< pieces that this block's senders have read from the input, and written
  int is_stopped[2];     ///< of each team: whether the host has stopped this kernel
  int was_stopped;       ///< whether it has stopped an earlier one: the counts may be anything

  /// To be called by all threads.
  __device__ void begin(Mailboxes const& boxes) {
    int const i = static_cast<int>(threadIdx.x);
    if (i == 0) {
      count = boxes.size - 1;
      piece_bytes = boxes.piece_bytes;
      written = 0;
      is_stopped[0] = is_stopped[1] = was_stopped = 0;
    }
    if (i < boxes.size - 1) {
      int const rank = (boxes.rank + 1 + i) % boxes.size;
      int const back = boxes.size - 2 - i;  // the index of this rank at the peer
      auto* const here = boxes.of_rank[boxes.rank];
      auto* const there = boxes.of_rank[rank];
      auto const slots_of = [&](std::byte* box, int index) {
        auto const lane =
            static_cast<std::size_t>(blockIdx.x) * static_cast<std::size_t>(boxes.size - 1) +
            static_cast<std::size_t>(index);
        return box + Mailboxes::kCountBytes +
               lane * Mailboxes::kSlots * (boxes.piece_bytes + Mailboxes::kLine);
      };
      auto const count_of = [&](std::byte* box, int index, int which) {
        auto const line = (blockIdx.x * Mailboxes::kMostPeers + index) * Mailboxes::kCounts + which;
        return reinterpret_cast<std::uint64_t*>(box + line * Mailboxes::kLine);
      };
      auto* const own = count_of(here, i, 2);
      peers[i] = {.slots_there = slots_of(there, back),
                  .slots_here = slots_of(here, i),
                  .ready_there = count_of(there, back, 0),
                  .ready_here = count_of(here, i, 0),
                  .credit_there = count_of(there, back, 1),
                  .credit_here = count_of(here, i, 1),
                  .own = own,
                  .sent = own[0],
                  .got = own[1],
                  .rank = rank,
                  .to_send = 0,
                  .to_get = 0};
      if (i == 0) {
        was_stopped = own[2] != 0 ? 1 : 0;
      }
    }
    __syncthreads();
  }
  /// Stores how far the block has come, for the next kernel. To be called by all threads.
  __device__ void end() {
    __syncthreads();
    int const i = static_cast<int>(threadIdx.x);
    if (was_stopped != 0 || is_stopped[0] != 0 || is_stopped[1] != 0) {
      if (i == 0) {
        peers[0].own[2] = 1;
      }
    } else if (i < count) {
      peers[i].own[0] = peers[i].sent + peers[i].to_send;
      peers[i].own[1] = peers[i].got + peers[i].to_get;
    }
  }

  [[nodiscard]] __device__ std::byte* slot_there(int peer, int piece) const {
    return peers[peer].slots_there + place_of(peers[peer].sent + piece);
  }
  [[nodiscard]] __device__ std::byte* slot_here(int peer, int piece) const {
    return peers[peer].slots_here + place_of(peers[peer].got + piece);
  }
  /// Returns whether a piece of this number goes to any peer.
  [[nodiscard]] __device__ bool sends(int piece) const {
    bool sends = false;
    for (int peer = 0; peer < count; ++peer) {
      sends = sends || piece < peers[peer].to_send;
    }
    return sends;
  }
  [[nodiscard]] __device__ bool gets(int piece) const {
    bool gets = false;
    for (int peer = 0; peer < count; ++peer) {
      gets = gets || piece < peers[peer].to_get;
    }
    return gets;
  }

  /// Waits until a piece may be written to all peers that get one of this number. Returns false if
  /// the host has stopped the kernel. To be called by all senders.
  [[nodiscard]] __device__ bool wait_for_credit(Mailboxes const& boxes, int piece) {
    return wait(0, [&](Peer const& peer) {
      auto const number = peer.sent + piece + 1;
      return piece >= peer.to_send || number <= Mailboxes::kSlots ||
             reaches(boxes, peer.credit_here, number - Mailboxes::kSlots);
    });
  }
  /// Tells the peers that a piece is written. To be called by all senders.
  __device__ void tell_ready(int piece) {
    synchronize_team();
    if (int const i = team_thread(); i < count && piece < peers[i].to_send) {
      store_release(peers[i].ready_there, peers[i].sent + piece + 1);
    }
    if (team_thread() == 0) {
      written = piece + 1;
    }
  }
  /// Waits until a piece is here from all peers that send one of this number. Returns false if the
  /// host has stopped the kernel. To be called by all receivers.
  [[nodiscard]] __device__ bool wait_for_piece(Mailboxes const& boxes, int piece) {
    return wait(1, [&](Peer const& peer) {
      return piece >= peer.to_get || reaches(boxes, peer.ready_here, peer.got + piece + 1);
    });
  }
  /// Tells the peers that a piece has been read. To be called by all receivers.
  __device__ void tell_read(int piece) {
    synchronize_team();
    if (int const i = team_thread(); i < count && piece < peers[i].to_get) {
      store_release(peers[i].credit_there, peers[i].got + piece + 1);
    }
  }
  /// Waits until the senders have read a piece of the input, which the receivers may then
  /// overwrite. Returns false if the host has stopped the kernel. To be called by all receivers.
  [[nodiscard]] __device__ bool wait_for_own(int piece) {
    if (team_thread() == 0) {
      while (written <= piece) {
        if (*static_cast<int volatile*>(&is_stopped[0]) != 0 && written <= piece) {
          *static_cast<int volatile*>(&is_stopped[1]) = 1;
          break;
        }
      }
    }
    synchronize_team();
    return *static_cast<int volatile*>(&is_stopped[1]) == 0;
  }

 private:
  [[nodiscard]] __device__ std::size_t place_of(std::uint64_t number) const {
    return number % Mailboxes::kSlots * (piece_bytes + Mailboxes::kLine);
  }
  /// Calls `arrives` for each peer, by a thread of its own, and waits for these threads.
  template <class Arrives>
  [[nodiscard]] __device__ bool wait(int team, Arrives const& arrives) {
    if (int const i = team_thread(); i < count && !arrives(peers[i])) {
      *static_cast<int volatile*>(&is_stopped[team]) = 1;
    }
    synchronize_team();
    return *static_cast<int volatile*>(&is_stopped[team]) == 0;
  }
  /// Waits until a count has reached a value. Returns false if the host has stopped the kernel.
  [[nodiscard]] __device__ static bool reaches(Mailboxes const& boxes,
                                               std::uint64_t const* count_at,
                                               std::uint64_t value) {
    constexpr unsigned kBetweenLooks = 2048;
    for (unsigned tries = 1; load_acquire(count_at) < value; ++tries) {
      if (tries % kBetweenLooks == 0 &&
          *static_cast<int const volatile*>(&boxes.signals->stop) != 0) {
        return false;
      }
    }
    return true;
  }
};

/// Sends and gets all pieces of a block: `write(peer, piece)` writes a piece, by all senders,
/// `read(piece)` reads those of all peers that have one of this number, by all receivers, and
/// `beside(piece)` does what no other rank waits for, by all receivers, for the first
/// `beside_pieces` pieces. `read` may change how many pieces there are to get, and returns false if
/// the kernel has been stopped.
template <class Write, class Read, class Beside>
__device__ void exchange_pieces(Mailboxes const& boxes,
                                BlockMail& mail,
                                int beside_pieces,
                                Write const& write,
                                Read const& read,
                                Beside const& beside) {
  if (mail.was_stopped != 0) {
    // Leaves at once.
  } else if (is_sender()) {
    for (int piece = 0; mail.sends(piece); ++piece) {
      if (!mail.wait_for_credit(boxes, piece)) {
        break;
      }
      for (int peer = 0; peer < mail.count; ++peer) {
        if (piece < mail.peers[peer].to_send) {
          write(peer, piece);
        }
      }
      mail.tell_ready(piece);
    }
  } else {
    for (int piece = 0; piece < beside_pieces || mail.gets(piece); ++piece) {
      if (piece < beside_pieces) {
        beside(piece);
      }
      if (mail.gets(piece)) {
        if (!mail.wait_for_piece(boxes, piece) || !read(piece)) {
          break;
        }
        mail.tell_read(piece);
      }
    }
  }
  mail.end();
}

}  // namespace msstream::comm::detail
