// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/carry_out.hpp"
#include "comm/elements/combined.hpp"
#include "comm/mail/mailboxes.hpp"

#include <msstream/base/dtype.hpp>

#include <cuda_runtime_api.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace msstream::comm::detail {

using Bytes = std::vector<std::byte>;

inline void check(cudaError_t code) {
  ASSERT_EQ(code, cudaSuccess) << cudaGetErrorString(code);
}

/// Memory of the device from which tensors are taken, since allocations of their own take long.
class Heap {
 public:
  explicit Heap(std::size_t bytes) : bytes_(bytes) {
    check(cudaMalloc(reinterpret_cast<void**>(&memory_), bytes));
  }
  ~Heap() { cudaFree(memory_); }
  Heap(Heap const&) = delete;
  Heap& operator=(Heap const&) = delete;

  /// Returns a place for values, `shift` bytes behind one for every type, with these values.
  [[nodiscard]] std::byte* place(Bytes const& values, std::size_t shift = 0) {
    constexpr std::size_t kAlignment = 256;
    auto* const at = memory_ + used_ + shift;
    used_ += (shift + values.size() + kAlignment) / kAlignment * kAlignment;
    if (used_ > bytes_) {
      throw std::length_error("the heap of a test is too small");
    }
    check(cudaMemcpy(at, values.data(), values.size(), cudaMemcpyHostToDevice));
    return at;
  }

 private:
  std::size_t bytes_;
  std::size_t used_ = 0;
  std::byte* memory_ = nullptr;
};

[[nodiscard]] inline Bytes on_host(std::byte const* from, std::size_t bytes) {
  Bytes values(bytes);
  check(cudaMemcpy(values.data(), from, bytes, cudaMemcpyDeviceToHost));
  return values;
}

struct Options {
  int ranks = 2;
  int blocks = 3;
  std::size_t piece_bytes = 512;
  std::size_t heap_bytes = std::size_t{64} << 20U;  ///< for the tensors of all ranks
};

/// Ranks on one GPU, with mailboxes and a stream each.
class Ranks {
 public:
  explicit Ranks(Options const& options) {
    Mailboxes boxes{
        .size = options.ranks, .blocks = options.blocks, .piece_bytes = options.piece_bytes};
    auto const box_bytes = (boxes.bytes_of_box() + 255) / 256 * 256;
    auto const all_bytes = box_bytes * static_cast<std::size_t>(options.ranks);
    check(cudaMalloc(reinterpret_cast<void**>(&memory_), all_bytes));
    check(cudaMemset(memory_, 0, all_bytes));
    check(cudaDeviceSynchronize());
    for (int rank = 0; rank < options.ranks; ++rank) {
      boxes.of_rank[static_cast<std::size_t>(rank)] =
          memory_ + box_bytes * static_cast<std::size_t>(rank);
      check(cudaStreamCreateWithFlags(&streams_.emplace_back(), cudaStreamNonBlocking));
      check(cudaHostAlloc(reinterpret_cast<void**>(&signals_.emplace_back()),
                          sizeof(MailSignals),
                          cudaHostAllocPortable));
      *signals_.back() = {};
    }
    for (int rank = 0; rank < options.ranks; ++rank) {
      boxes.rank = rank;
      boxes.signals = signals_[static_cast<std::size_t>(rank)];
      boxes_.push_back(boxes);
    }
  }
  ~Ranks() {
    for (std::size_t rank = 0; rank < streams_.size(); ++rank) {
      cudaStreamDestroy(streams_[rank]);
      cudaFreeHost(signals_[rank]);
    }
    cudaFree(memory_);
  }
  Ranks(Ranks const&) = delete;
  Ranks& operator=(Ranks const&) = delete;

  [[nodiscard]] MailSignals& signals(int rank) { return *signals_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] cudaStream_t stream(int rank) { return streams_[static_cast<std::size_t>(rank)]; }
  void put(int rank, Part const& part, int most_blocks = 1000) {
    put_by_mail(stream(rank), boxes_[static_cast<std::size_t>(rank)], part, most_blocks);
  }
  void synchronize() {
    for (auto* const stream : streams_) {
      check(cudaStreamSynchronize(stream));
    }
  }

 private:
  std::byte* memory_ = nullptr;
  std::vector<cudaStream_t> streams_;
  std::vector<MailSignals*> signals_;
  std::vector<Mailboxes> boxes_;
};

/// One rank's tensors of a collective, on the host and on the device, whose outputs are poisoned.
struct Tensors {
  Bytes input;
  Bytes output;
  std::vector<std::int64_t> counts;
  std::vector<std::int64_t> received;
  std::size_t shift = 0;  ///< bytes by which tensors on the device are not aligned
  bool in_place = false;  ///< whether the output is the input, on the device
  std::byte* input_there = nullptr;
  std::byte* output_there = nullptr;
  std::byte* counts_there = nullptr;
  std::byte* received_there = nullptr;

  void upload(Heap& heap) {
    auto const bytes_of_counts = [](std::vector<std::int64_t> const& values) {
      Bytes bytes(values.size() * sizeof(std::int64_t));
      std::memcpy(bytes.data(), values.data(), bytes.size());
      return bytes;
    };
    input_there = heap.place(input, shift);
    output_there = in_place ? input_there : heap.place(output, shift);
    counts_there = heap.place(bytes_of_counts(counts));
    received_there = heap.place(bytes_of_counts(received));
  }
  [[nodiscard]] Part on_host(Collective const& what) {
    return {.what = what,
            .input = input.data(),
            .output = output.data(),
            .counts = counts.empty() ? nullptr : counts.data(),
            .received = received.empty() ? nullptr : received.data()};
  }
  [[nodiscard]] Part on_device(Collective const& what) const {
    return {
        .what = what,
        .input = input_there,
        .output = output_there,
        .counts = counts.empty() ? nullptr : reinterpret_cast<std::int64_t*>(counts_there),
        .received = received.empty() ? nullptr : reinterpret_cast<std::int64_t*>(received_there)};
  }
  [[nodiscard]] Bytes output_of_device() const {
    return detail::on_host(output_there, output.size());
  }
  [[nodiscard]] std::vector<std::int64_t> received_of_device() const {
    std::vector<std::int64_t> values(received.size());
    auto const bytes = detail::on_host(received_there, values.size() * sizeof(std::int64_t));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
};

/// Draws the elements of a tensor. Floats are small numbers with few bits, of which no sum is a
/// NaN.
[[nodiscard]] inline Bytes drawn(std::mt19937_64& random, DType dtype, std::size_t count) {
  Bytes bytes(count * bytes_of(dtype));
  std::normal_distribution<float> normal(0, 3);
  with_type(dtype, [&](auto value) {
    using T = decltype(value);
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (std::is_integral_v<T>) {
        value = static_cast<T>(random());
      } else {
        value = from_float<T>(normal(random));
      }
      std::memcpy(&bytes[i * sizeof(value)], &value, sizeof(value));
    }
  });
  return bytes;
}

/// A collective of all ranks, with their tensors.
struct Drawn {
  Collective what;
  std::vector<Tensors> of_rank;
};

/// Draws the tensors of a collective. `count` is that of the smaller tensor, or of a part.
[[nodiscard]] inline Drawn drawn(std::mt19937_64& random,
                                 int ranks,
                                 Collective what,
                                 std::size_t shift) {
  Drawn all{what, {}};
  auto const size = static_cast<std::size_t>(ranks);
  auto count = static_cast<std::size_t>(what.count);
  auto inputs = count;
  auto outputs = count;
  std::size_t row = 0;
  switch (what.kind) {
    case CollectiveKind::reduce_scatter:
      inputs *= size;
      break;
    case CollectiveKind::all_gather:
      outputs *= size;
      break;
    case CollectiveKind::all_to_all:
    case CollectiveKind::all_to_all_counted:
      row = what.kind == CollectiveKind::all_to_all ? 0 : count;
      inputs = outputs = count * size * (row == 0 ? 1 : static_cast<std::size_t>(what.capacity));
      all.what.count = static_cast<std::int64_t>(inputs);
      break;
    default:
      break;
  }
  for (std::size_t rank = 0; rank < size; ++rank) {
    auto& own = all.of_rank.emplace_back();
    own.shift = shift;
    own.in_place = what.kind == CollectiveKind::all_reduce && shift == 0;
    own.input = drawn(random, what.dtype, inputs);
    own.output.assign(outputs * bytes_of(what.dtype), std::byte{0xA5});
    if (row != 0) {
      for (std::size_t other = 0; other < size; ++other) {
        own.counts.push_back(
            static_cast<std::int64_t>(random() % (static_cast<std::uint64_t>(what.capacity) + 1)));
      }
      own.received.assign(size, -7);
    }
  }
  return all;
}

/// Computes on the host what the ranks get.
inline void carry_out_on_host(Drawn& drawn) {
  std::vector<Part> parts;
  for (auto& own : drawn.of_rank) {
    parts.push_back(own.on_host(drawn.what));
  }
  std::vector<Part const*> all;
  for (auto const& part : parts) {
    all.push_back(&part);
  }
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    carry_out(static_cast<int>(rank), all);
  }
}

inline void expect_equal(Drawn const& expected, std::string const& what) {
  for (std::size_t rank = 0; rank < expected.of_rank.size(); ++rank) {
    auto const& own = expected.of_rank[rank];
    // A root's own tensor of broadcast is its input.
    bool const is_root = expected.what.kind == CollectiveKind::broadcast &&
                         static_cast<int>(rank) == expected.what.peer;
    if (!is_root) {
      EXPECT_TRUE(own.output_of_device() == own.output) << what << ", rank " << rank;
    }
    EXPECT_EQ(own.received_of_device(), own.received) << what << ", received on rank " << rank;
  }
}

}  // namespace msstream::comm::detail
