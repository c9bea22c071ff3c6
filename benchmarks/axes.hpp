// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

/// The sizes and ranges that the suites share, in one place, so that their rows can be compared.
namespace benchmarks::axes {

inline constexpr std::array kThreads{1, 4, 8};
inline constexpr std::array kGroups{1, 2, 4, 8};
inline constexpr std::array kForks{1, 2, 4, 8, 16};

/// Few enough that the device's launch queue (about a thousand places a stream) never fills: the
/// host would wait for the device, and that would be measured.
inline constexpr int kOperationsPerBatch = 256;
/// Batches of each side in one repetition; their median is reported.
inline constexpr int kBatches = 100;

/// Training steps between two synchronisations, and how often a repetition does that.
inline constexpr int kHostSteps = 4;
inline constexpr int kCudaSteps = 40;
inline constexpr int kRunsPerRepetition = 2;

/// Bytes of allocations, drawn log-uniform from [least, most].
struct ByteRange {
  std::size_t least;
  std::size_t most;
  char const* name;
};
inline constexpr std::array kAllocations{
    ByteRange{256, std::size_t{1} << 20U, "256B_1MiB"},
    ByteRange{256, std::size_t{64} << 20U, "256B_64MiB"},
};
inline constexpr std::array kAllocatingThreads{1, 8};
inline constexpr int kLiveBlocksPerThread = 32;
/// Allocations launch nothing, so there is no queue to fill: enough that the threads' unequal
/// starts do not count.
inline constexpr int kAllocationsPerBatch = 2048;
inline constexpr int kAllocationBatches = 25;
/// Batches of milliseconds: with fewer rounds, eight threads spend a good part of a
/// batch alone, or on the way to their processors.
inline constexpr int kAllocationRoundsOfOurs = 16;

/// The Census-Income (KDD) data as train_wdl sees it: a table of 32 rows a distinct key, of 1,024
/// at least.
struct Census {
  static constexpr std::array<std::int64_t, 33> kDistinctKeys{
      9,  52, 47, 17, 3,  7, 24, 15, 5,  10, 2,  3, 6, 8, 6, 6, 51,
      37, 8,  10, 9,  10, 3, 4,  5,  43, 43, 43, 5, 3, 3, 3, 2};
  static constexpr std::int64_t kContinuous = 7;
  static constexpr std::int64_t kBatch = 512;
  static constexpr std::int64_t kEmbeddingDim = 16;
  static constexpr std::array<std::int64_t, 2> kLayers{256, 128};
};

/// Progressive Layered Extraction as PyTorch's figures have it: 26 bags of 4, three tasks.
struct Ple {
  static constexpr std::int64_t kFields = 26;
  static constexpr std::int64_t kHotness = 4;
  static constexpr std::int64_t kTableRows = 100'000;
  static constexpr std::int64_t kContinuous = 13;
  static constexpr std::int64_t kTasks = 3;
  static constexpr std::array<std::int64_t, 2> kBatches{512, 4096};
  static constexpr std::array kGroups{1, 4, 7};
};
inline constexpr std::int64_t kHostPleDivisor = 16;

/// Lookups that take as long as the layers behind them.
struct Pipeline {
  static constexpr std::int64_t kFields = 26;
  static constexpr std::int64_t kHotness = 10;
  static constexpr std::int64_t kTableRows = 1'000'000;
  static constexpr std::int64_t kEmbeddingDim = 64;
  static constexpr std::int64_t kBatch = 4096;
  static constexpr std::array<std::int64_t, 3> kLayers{512, 256, 1};
};
inline constexpr std::int64_t kHostPipelineDivisor = 64;

/// Bags of any hotness around kHotness: two keys less to two more than a batch's own, which is from
/// half of it to half more.
struct Jagged {
  static constexpr std::int64_t kFields = 26;
  static constexpr std::int64_t kHotness = 4;
  static constexpr std::int64_t kMostHotness = 8;
  static constexpr std::int64_t kTableRows = 100'000;
  static constexpr std::int64_t kEmbeddingDim = 16;
  static constexpr std::int64_t kBatch = 512;
  static constexpr std::array<std::int64_t, 3> kLayers{256, 128, 1};
};
inline constexpr std::int64_t kHostJaggedDivisor = 16;

/// Rows that are normalised, or summed, to one number each; all of 128 MiB.
struct Reductions {
  static constexpr std::int64_t kElements = std::int64_t{1} << 25U;
  static constexpr std::array<std::int64_t, 4> kWidths{16, 128, 1024, 4096};
  static constexpr int kRuns = 5;
};

/// Four branches of elementwise layers on square matrices.
struct Branches {
  static constexpr std::int64_t kWidth = 512;
  static constexpr std::array kGroups{1, 4};
};

/// Lists of up to 50 items with features in groups of 32; two groups of the user by three of the
/// items are six pairs, and there are three targets.
struct Rerank {
  static constexpr std::int64_t kQueries = 128;
  static constexpr std::int64_t kItems = 50;
  static constexpr std::int64_t kColumns = 96;
  static constexpr int kUserGroups = 2;
  static constexpr int kItemGroups = 3;
  static constexpr std::int64_t kWidth = 64;
  static constexpr std::int64_t kTowerHidden = 64;
  static constexpr int kTargets = 3;
  static constexpr std::array kGroups{1, 2, 5, 7};
};

/// The tables, bags and matrices of the kernels. A small machine divides the rows, and keeps the
/// widths.
struct Kernels {
  static constexpr std::int64_t kTableRows = 10'000'000;
  static constexpr std::int64_t kTableWidth = 128;
  static constexpr std::int64_t kBags = 65'536;
  static constexpr std::array<std::int64_t, 3> kHotness{1, 16, 64};

  static constexpr std::int64_t kSegmentRows = std::int64_t{1} << 22U;
  static constexpr std::int64_t kSegments = std::int64_t{1} << 18U;
  static constexpr std::array<std::int64_t, 2> kSegmentWidths{64, 128};
  static constexpr std::array<std::int64_t, 2> kUniqueIds{std::int64_t{1} << 20U,
                                                          std::int64_t{1} << 22U};

  static constexpr std::int64_t kDenseBatch = 512;
  static constexpr std::int64_t kDenseInputs = 535;
  static constexpr std::int64_t kDenseOutputs = 256;
  /// Long batches with few weights: batch, inputs, outputs.
  static constexpr std::array<std::array<std::int64_t, 3>, 2> kLongDense{
      {{6400, 64, 64}, {4096, 429, 256}}};

  static constexpr std::int64_t kTables = 26;
  static constexpr std::array<std::int64_t, 2> kTableBatches{2048, 8192};
  static constexpr std::int64_t kRowsPerTable = 100'000;
  static constexpr std::int64_t kWidthPerTable = 16;

  static constexpr std::int64_t kCopyBytes = std::int64_t{1} << 30U;
  /// Written before a run that is to find nothing of its own in the cache; and how many such runs
  /// give one median.
  static constexpr std::int64_t kFlushBytes = std::int64_t{512} << 20U;
  static constexpr int kColdRuns = 20;
  /// Operations between two timestamps of the device, and how often a repetition does that.
  static constexpr int kOperations = 10;
  static constexpr int kRuns = 5;
};
inline constexpr std::int64_t kHostDivisor = 256;

/// What the other kernels leave out: rows moved, jagged bags, gradients. Tables, bags and
/// segments are as many as there.
struct Rows {
  static constexpr std::int64_t kWidth = 64;
  static constexpr std::int64_t kMoved = std::int64_t{1} << 20U;
  static constexpr std::int64_t kMeanLength = 16;
  static constexpr std::int64_t kLongest = 200;
  static constexpr std::int64_t kDenseLength = 32;
  static constexpr std::int64_t kNumbers = std::int64_t{1} << 22U;
  static constexpr std::int64_t kBoundaries = 64;
  static constexpr std::int64_t kTopRows = 65'536;
  static constexpr std::int64_t kTopColumns = 1000;
  static constexpr std::array<std::int64_t, 2> kTop{10, 100};
  static constexpr std::int64_t kHotness = 16;
};

}  // namespace benchmarks::axes
