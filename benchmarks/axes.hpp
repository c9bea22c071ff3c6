// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

/// The sizes and ranges that all suites share, so that their results can be compared.
namespace benchmarks::axes {

inline constexpr std::array kThreads{1, 4, 8};
inline constexpr std::array kGroups{1, 2, 4, 8};
inline constexpr std::array kForks{1, 2, 4, 8, 16};

/// The number of operations in a batch: few enough that the device's launch queue (about 1,000
/// entries per stream) never fills. Otherwise the host would wait for the device, and the wait
/// would be measured.
inline constexpr int kOperationsPerBatch = 256;
/// The number of batches that each side of a comparison runs in one repetition; their median is
/// reported.
inline constexpr int kBatches = 100;

/// The number of training steps between two synchronisations (on the host runtime and on CUDA), and
/// the number of such runs in a repetition.
inline constexpr int kHostSteps = 4;
inline constexpr int kCudaSteps = 40;
inline constexpr int kRunsPerRepetition = 2;

/// A range of allocation sizes in bytes; sizes are drawn log-uniformly from [least, most].
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
/// The number of allocations in a batch: enough that the threads' unequal start times do not
/// matter. Allocations launch nothing, so they cannot fill the device's queue.
inline constexpr int kAllocationsPerBatch = 2048;
inline constexpr int kAllocationBatches = 25;
/// The number of times that msstream's side repeats its allocations in a batch, so that a batch
/// takes milliseconds. With fewer rounds, eight threads would spend a large part of a batch running
/// alone or waiting to be scheduled.
inline constexpr int kAllocationRoundsOfOurs = 16;

/// The Census-Income (KDD) data as train_wdl uses it. The table of a field has 32 rows per distinct
/// key, and at least 1,024 rows.
struct Census {
  static constexpr std::array<std::int64_t, 33> kDistinctKeys{
      9,  52, 47, 17, 3,  7, 24, 15, 5,  10, 2,  3, 6, 8, 6, 6, 51,
      37, 8,  10, 9,  10, 3, 4,  5,  43, 43, 43, 5, 3, 3, 3, 2};
  static constexpr std::int64_t kContinuous = 7;
  static constexpr std::int64_t kBatch = 512;
  static constexpr std::int64_t kEmbeddingDim = 16;
  static constexpr std::array<std::int64_t, 2> kLayers{256, 128};
};

/// A Progressive Layered Extraction (PLE) model in the sizes of the PyTorch baseline: 26 fields
/// with bags of 4 keys, and three tasks.
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

/// The sizes of a model whose embedding lookups take as long as its dense layers.
struct Pipeline {
  static constexpr std::int64_t kFields = 26;
  static constexpr std::int64_t kHotness = 10;
  static constexpr std::int64_t kTableRows = 1'000'000;
  static constexpr std::int64_t kEmbeddingDim = 64;
  static constexpr std::int64_t kBatch = 4096;
  static constexpr std::array<std::int64_t, 3> kLayers{512, 256, 1};
};
inline constexpr std::int64_t kHostPipelineDivisor = 64;

/// Bags whose lengths vary around kHotness. The mean length of a batch is from half of kHotness to
/// one and a half times kHotness; each bag differs from the mean of its batch by at most two keys.
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

/// The sizes of rows that are normalised, or summed to one number each. Every input has 128 MiB.
struct Reductions {
  static constexpr std::int64_t kElements = std::int64_t{1} << 25U;
  static constexpr std::array<std::int64_t, 4> kWidths{16, 128, 1024, 4096};
  static constexpr int kRuns = 5;
};

/// The sizes of the train_branches model: four branches of elementwise layers on square matrices.
struct Branches {
  static constexpr std::int64_t kWidth = 512;
  static constexpr std::array kGroups{1, 4};
};

/// The reranking model: lists of up to 50 items with features in groups of 32. Two user groups
/// times three item groups give six pairs; there are three targets.
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

/// The tables, bags and matrices of the kernel benchmarks. On a small machine the numbers of rows
/// are divided, and the widths stay.
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
  /// Dense layers with long batches and few weights, as {batch, inputs, outputs}.
  static constexpr std::array<std::array<std::int64_t, 3>, 2> kLongDense{
      {{6400, 64, 64}, {4096, 429, 256}}};
  /// Dot interactions, as {batch, features, width}.
  static constexpr std::array<std::array<std::int64_t, 3>, 3> kInteractions{
      {{8192, 26, 128}, {2048, 26, 64}, {8192, 8, 32}}};

  static constexpr std::int64_t kTables = 26;
  static constexpr std::array<std::int64_t, 2> kTableBatches{2048, 8192};
  static constexpr std::int64_t kRowsPerTable = 100'000;
  static constexpr std::int64_t kWidthPerTable = 16;

  static constexpr std::int64_t kCopyBytes = std::int64_t{1} << 30U;
  /// The number of bytes written before each cold run, so that the run finds none of its data in
  /// the cache; and the number of cold runs that give one median.
  static constexpr std::int64_t kFlushBytes = std::int64_t{512} << 20U;
  static constexpr int kColdRuns = 20;
  /// The number of operations between two timestamps of the device, and the number of such
  /// measurements in a repetition.
  static constexpr int kOperations = 10;
  static constexpr int kRuns = 5;
};
inline constexpr std::int64_t kHostDivisor = 256;

/// The sizes of operations that Kernels does not cover: moved rows, jagged bags, gradients. The
/// numbers of tables, bags and segments are those of the struct Kernels.
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

/// The sizes of the suite ops_table: tensors of 256 MiB, matrices of one product, attention of as
/// many queries as keys, and mixtures of all experts by each gate.
struct Table {
  static constexpr std::int64_t kElements = std::int64_t{1} << 26U;
  static constexpr std::int64_t kWidth = 64;
  static constexpr std::int64_t kRowWidth = 128;
  static constexpr std::int64_t kClasses = 1024;
  static constexpr std::int64_t kSquare = 8192;
  static constexpr std::int64_t kBlocks = 16;

  static constexpr std::int64_t kHotness = 16;
  static constexpr std::int64_t kMaximaHotness = 4;

  static constexpr std::int64_t kBatch = 8192;
  static constexpr std::int64_t kInputs = 3456;
  static constexpr std::int64_t kOutputs = 1024;
  static constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20U;
  static constexpr std::int64_t kAttended = 1024;
  static constexpr std::int64_t kKeys = 128;
  static constexpr std::int64_t kKeyWidth = 64;
  static constexpr std::int64_t kExperts = 8;
  static constexpr std::int64_t kGates = 3;
  static constexpr std::int64_t kMixedBatch = 65'536;
  static constexpr std::int64_t kExpertWidth = 128;
  static constexpr std::int64_t kFactorizedBatch = 65'536;
};

/// The batches of metrics, those of metrics of retrieval with the items that they rank, the
/// examples that a metric keeps (more than all updates add), and the examples of a value.
struct Metrics {
  static constexpr std::array<std::int64_t, 3> kBatches{512, 4096, 65'536};
  static constexpr std::array<std::int64_t, 2> kRetrievals{512, 4096};
  static constexpr std::array<std::int64_t, 2> kColumns{128, 4096};
  static constexpr std::int64_t kCapacity = std::int64_t{1} << 25U;
  static constexpr std::int64_t kExamples = std::int64_t{1} << 20U;
};

}  // namespace benchmarks::axes
