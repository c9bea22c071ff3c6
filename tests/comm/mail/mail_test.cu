// SPDX-License-Identifier: Apache-2.0
// Tests of the kernels of collectives between GPUs that reach each other's memory. All ranks are on
// one GPU here, each on a stream of its own. What they write is compared with what the host runtime
// computes.
#include "comm/mail/mail_ranks.cuh"

#include <msstream/runtime/cuda.hpp>

#include <gmock/gmock.h>

#include <cmath>
#include <source_location>

namespace msstream::comm::detail {
namespace {

class MailTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Cuda::device_count() == 0) {
      GTEST_SKIP() << "needs a GPU";
    }
  }

  /// Puts collectives on all ranks, one behind the other, and compares what they give.
  void expect_as_on_host(Options const& options,
                         std::vector<Collective> const& collectives,
                         std::size_t shift = 0) {
    Heap heap(options.heap_bytes);
    Ranks ranks(options);
    std::vector<Drawn> all;
    for (auto const& what : collectives) {
      auto& drawn_ones = all.emplace_back(drawn(random_, options.ranks, what, shift));
      for (auto& own : drawn_ones.of_rank) {
        own.upload(heap);
      }
    }
    // By collective, because streams of a GPU may share a queue, in which a kernel that waits for
    // another one of its stream keeps those behind it waiting.
    for (auto const& drawn_ones : all) {
      for (int rank = 0; rank < options.ranks; ++rank) {
        ranks.put(rank,
                  drawn_ones.of_rank[static_cast<std::size_t>(rank)].on_device(drawn_ones.what));
      }
    }
    ranks.synchronize();
    for (std::size_t i = 0; i < all.size(); ++i) {
      carry_out_on_host(all[i]);
      expect_equal(all[i],
                   to_string(Part{.what = all[i].what}) + ", number " + std::to_string(i) + ", " +
                       std::to_string(options.ranks) + " ranks, shift " + std::to_string(shift));
    }
  }

  std::mt19937_64 random_{7};
};

TEST_F(MailTest, copies_are_those_of_the_host_for_any_size_and_place) {
  for (int const ranks : {2, 3, 5, 8}) {
    for (std::size_t const shift : {0, 1, 4, 8}) {
      std::vector<Collective> all;
      for (std::int64_t const count : {1, 127, 512, 1536, 5000, 40'001}) {
        for (auto const kind :
             {CollectiveKind::all_gather, CollectiveKind::all_to_all, CollectiveKind::broadcast}) {
          all.push_back({.kind = kind,
                         .dtype = DType::uint8,
                         .count = count,
                         .peer = static_cast<int>(all.size()) % ranks});
        }
        all.push_back({.kind = CollectiveKind::barrier});
      }
      expect_as_on_host({.ranks = ranks}, all, shift);
    }
  }
}

TEST_F(MailTest, sums_are_in_the_order_of_the_ranks_for_every_type) {
  for (int const ranks : {2, 3, 8}) {
    for (std::size_t const shift : {0, 8}) {
      std::vector<Collective> all;
      for (auto const dtype : {DType::float32,
                               DType::float16,
                               DType::bfloat16,
                               DType::int32,
                               DType::int64,
                               DType::uint8}) {
        for (auto const reduction :
             {Reduction::sum, Reduction::mean, Reduction::max, Reduction::min}) {
          bool const is_float =
              dtype == DType::float32 || dtype == DType::float16 || dtype == DType::bfloat16;
          for (std::int64_t const count : {1, 130, 4096, 3001}) {
            if (reduction != Reduction::mean || is_float) {
              all.push_back({CollectiveKind::all_reduce, dtype, count, reduction});
              all.push_back({CollectiveKind::reduce_scatter, dtype, count, reduction});
            }
          }
        }
      }
      expect_as_on_host({.ranks = ranks}, all, shift);
    }
  }
}

TEST_F(MailTest, as_many_rows_come_as_are_counted_on_the_device) {
  for (int const ranks : {2, 3, 8}) {
    for (std::int64_t const row : {1, 3, 16, 512}) {
      std::vector<Collective> all;
      for (std::int64_t const capacity : {1, 7, 100, 300}) {
        all.push_back({.kind = CollectiveKind::all_to_all_counted,
                       .dtype = DType::float32,
                       .count = row,
                       .capacity = capacity});
      }
      expect_as_on_host({.ranks = ranks, .heap_bytes = std::size_t{256} << 20U}, all);
    }
  }
}

TEST_F(MailTest, large_ones_go_through_boxes_of_the_usual_size) {
  int processors = 0;
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  if (processors < 2 * Mailboxes::kMostBlocks) {
    GTEST_SKIP() << "needs " << 2 * Mailboxes::kMostBlocks << " multiprocessors for two ranks";
  }
  Options const usual{.ranks = 2,
                      .blocks = Mailboxes::kMostBlocks,
                      .piece_bytes = 64 << 10,
                      .heap_bytes = std::size_t{768} << 20U};
  expect_as_on_host(usual,
                    {{.kind = CollectiveKind::all_gather, .count = 21'000'001},
                     {CollectiveKind::all_reduce, DType::float32, 9'000'001, Reduction::mean},
                     {.kind = CollectiveKind::all_to_all, .count = 30'000'000},
                     {.kind = CollectiveKind::all_to_all_counted,
                      .dtype = DType::float32,
                      .count = 128,
                      .capacity = 40'000}});
}

TEST_F(MailTest, a_nan_of_any_rank_is_the_largest_and_the_least) {
  constexpr int kRanks = 3;
  for (auto const reduction : {Reduction::max, Reduction::min}) {
    for (int with_nan = 0; with_nan < kRanks; ++with_nan) {
      Heap heap(1 << 20);
      Ranks ranks({.ranks = kRanks});
      Collective const what{CollectiveKind::all_reduce, DType::float32, 5, reduction};
      auto all = drawn(random_, kRanks, what, 0);
      float const nan = std::nanf("");
      std::memcpy(&all.of_rank[static_cast<std::size_t>(with_nan)].input[8], &nan, sizeof(nan));
      for (int rank = 0; rank < kRanks; ++rank) {
        auto& own = all.of_rank[static_cast<std::size_t>(rank)];
        own.upload(heap);
        ranks.put(rank, own.on_device(what));
      }
      ranks.synchronize();
      for (auto const& own : all.of_rank) {
        float values[5];
        std::memcpy(values, own.output_of_device().data(), sizeof(values));
        EXPECT_TRUE(std::isnan(values[2]) && !std::isnan(values[1])) << with_nan;
      }
    }
  }
}

TEST_F(MailTest, a_count_out_of_range_is_told_to_both_ranks_and_sends_nothing) {
  constexpr int kRanks = 3;
  std::source_location const calls[kRanks] = {std::source_location::current(),
                                              std::source_location::current(),
                                              std::source_location::current()};
  for (std::int64_t const count : {std::int64_t{-1}, std::int64_t{8}, std::int64_t{1} << 40U}) {
    for (int to = 0; to < kRanks; ++to) {
      Heap heap(1 << 20);
      Ranks ranks({.ranks = kRanks});
      Collective const what{.kind = CollectiveKind::all_to_all_counted,
                            .dtype = DType::float32,
                            .count = 4,
                            .capacity = 7};
      auto all = drawn(random_, kRanks, what, 0);
      all.of_rank[0].counts[static_cast<std::size_t>(to)] = count;
      for (int rank = 0; rank < kRanks; ++rank) {
        auto& own = all.of_rank[static_cast<std::size_t>(rank)];
        own.upload(heap);
        auto part = own.on_device(all.what);
        part.issued_at = calls[rank];
        ranks.put(rank, part);
      }
      ranks.synchronize();
      for (int rank = 0; rank < kRanks; ++rank) {
        auto const& signals = ranks.signals(rank);
        EXPECT_EQ(signals.fault, rank == 0 || rank == to ? 1 : 0) << rank << " of " << to;
        if (signals.fault != 0) {
          EXPECT_EQ(signals.from, 0);
          EXPECT_EQ(signals.to, to);
          EXPECT_EQ(signals.count, count);
          EXPECT_EQ(signals.capacity, 7);
          EXPECT_EQ(signals.issued_at.line(), calls[rank].line());
          EXPECT_STREQ(signals.issued_at.file_name(), calls[rank].file_name());
        }
      }
      auto const& receiver = all.of_rank[static_cast<std::size_t>(to)];
      EXPECT_EQ(receiver.received_of_device()[0], 0);
      auto const output = receiver.output_of_device();
      EXPECT_TRUE(std::all_of(output.begin(), output.begin() + 7 * 16, [](std::byte byte) {
        return byte == std::byte{0xA5};
      }));
    }
  }
}

TEST_F(MailTest, a_kernel_without_the_others_ends_when_told_to) {
  for (auto const kind : {CollectiveKind::all_reduce,
                          CollectiveKind::all_gather,
                          CollectiveKind::all_to_all_counted,
                          CollectiveKind::barrier}) {
    Heap heap(1 << 20);
    Ranks ranks({.ranks = 2});
    Collective const what{.kind = kind, .dtype = DType::float32, .count = 2000, .capacity = 2};
    auto all = drawn(random_, 2, what, 0);
    auto& own = all.of_rank[0];
    own.upload(heap);
    ranks.put(0, own.on_device(all.what));
    *static_cast<int volatile*>(&ranks.signals(0).stop) = 1;
    ranks.synchronize();
    ranks.put(0, own.on_device(all.what));
    ranks.synchronize();
  }
}

TEST_F(MailTest, a_graph_takes_the_counts_of_each_replay) {
  constexpr int kRanks = 2;
  Heap heap(1 << 20);
  Ranks ranks({.ranks = kRanks});
  Collective const what{.kind = CollectiveKind::all_to_all_counted,
                        .dtype = DType::float32,
                        .count = 3,
                        .capacity = 200};
  auto all = drawn(random_, kRanks, what, 0);
  std::vector<cudaGraphExec_t> graphs;
  for (int rank = 0; rank < kRanks; ++rank) {
    auto& own = all.of_rank[static_cast<std::size_t>(rank)];
    own.upload(heap);
    check(cudaStreamBeginCapture(ranks.stream(rank), cudaStreamCaptureModeThreadLocal));
    ranks.put(rank, own.on_device(all.what));
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(ranks.stream(rank), &graph));
    check(cudaGraphInstantiate(&graphs.emplace_back(), graph, 0));
    check(cudaGraphDestroy(graph));
  }
  for (int replay = 0; replay < 10; ++replay) {
    for (auto& own : all.of_rank) {
      for (auto& count : own.counts) {
        count = static_cast<std::int64_t>(random_() % 201);
      }
      std::fill(own.output.begin(), own.output.end(), std::byte{0xA5});
      auto const bytes = own.counts.size() * sizeof(std::int64_t);
      check(cudaMemcpy(own.counts_there, own.counts.data(), bytes, cudaMemcpyHostToDevice));
      check(cudaMemset(own.output_there, 0xA5, own.output.size()));
    }
    check(cudaDeviceSynchronize());
    for (int rank = 0; rank < kRanks; ++rank) {
      check(cudaGraphLaunch(graphs[static_cast<std::size_t>(rank)], ranks.stream(rank)));
    }
    ranks.synchronize();
    carry_out_on_host(all);
    expect_equal(all, "replay " + std::to_string(replay));
  }
  for (auto* const graph : graphs) {
    check(cudaGraphExecDestroy(graph));
  }
}

}  // namespace
}  // namespace msstream::comm::detail
