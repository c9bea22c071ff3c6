// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/options.hpp"
#include "cli/outputs.hpp"
#include "datasets/readers.hpp"
#include "training/training_data.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace msstream::training {

/// The options of a program that can leave the rows of its files where they are. Loaded rows are
/// shuffled in whole epochs.
struct StreamingOptions {
  static constexpr std::int64_t kShuffleRows = std::int64_t{1} << 18U;

  bool stream = false;
  std::optional<std::int64_t> shuffle_rows = {};  ///< null: kShuffleRows, if rows are streamed

  [[nodiscard]] std::int64_t rows_to_shuffle() const noexcept {
    return shuffle_rows.value_or(kShuffleRows);
  }
};

void add_options(cli::Options& options, StreamingOptions& chosen);
/// Throws UsageError for options that contradict each other. `data` is the value of --data.
void check_streaming(StreamingOptions const& chosen, std::string const& data);
[[nodiscard]] nlohmann::ordered_json describe(StreamingOptions const& chosen);
/// Adds the files that --data names to the inputs of a program.
void add_data_files(std::string const& data, std::vector<cli::InputOption>& inputs);

/// The files of a training, and how they are read.
struct DataFiles {
  std::string data;  ///< the value of --data
  datasets::ReaderOptions reader = {};
  TrainingDataOptions rows = {};
  /// How often a process has the rows in memory unless they are streamed:
  /// RankOptions::copies_of_rows().
  int copies = 1;
  std::string resume = {};  ///< the checkpoint that the run resumes from; empty: none
  bool quiet = false;       ///< shows no progress
};

/// Reads the rows of the files into memory, or streams them if the options say so. Throws as
/// load_training_data() and stream_training_data(); UsageError for an empty name of a file, for
/// files of which the copies are larger than the memory of the machine unless they are streamed,
/// and for what is no regular file if it is; DataError for a file that cannot be opened, and for a
/// folder, before any row is read; and std::invalid_argument if one of the checkpoint and the run
/// streams its rows, and the other does not, as their batches differ.
[[nodiscard]] TrainingData data_of_files(DataFiles const& files, StreamingOptions const& chosen);

/// Throws UsageError if `copies` of the files, as they are stored, have more than `memory_bytes`.
void require_fit(std::vector<std::filesystem::path> const& paths,
                 int copies,
                 std::uintmax_t memory_bytes);

/// Estimates how many bytes of some files have been read, from the place of a reader. The bytes of
/// a compressed or binary file count when its end is reached, since a place in it is no byte of it.
class FileProgress {
 public:
  explicit FileProgress(std::vector<std::filesystem::path> const& paths);
  [[nodiscard]] std::int64_t bytes() const noexcept { return begins_.back(); }
  [[nodiscard]] std::int64_t bytes_read(data::Reader::Position const& place) const noexcept;

 private:
  std::vector<std::int64_t> begins_{0};  ///< of each file among the bytes of all, and their end
  std::vector<bool> is_text_;            ///< whether each file is text that is not compressed
};

}  // namespace msstream::training
