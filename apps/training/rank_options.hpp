// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/options.hpp"
#include "cli/outputs.hpp"
#include "cli/stream_options.hpp"
#include "training/lookahead.hpp"

#include <msstream/comm/world.hpp>
#include <msstream/step/data_parallel.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The command-line options for a training on several ranks, which training programs share.
namespace msstream::training {

/// How the ranks divide a training. data: by the rows of each batch; half_batches: the same, with
/// the rows of a rank in two halves, which are in flight at once; sharded: by the rows of each
/// batch, with the embedding tables in parts on all ranks.
enum class Parallel : std::uint8_t { data, half_batches, sharded };
[[nodiscard]] std::string_view name_of(Parallel parallel);

struct RankOptions {
  /// The number of ranks. 0 before check_ranks(): those that a launcher has started, otherwise one.
  int ranks = 0;
  Parallel parallel = Parallel::data;
  Reproducible reproducible = Reproducible::same_rank_count;
  std::string plan = {};  ///< the file of --plan
  Lookahead lookahead = Lookahead::none;
  /// This process among those that a launcher has started; set by check_ranks().
  comm::World process = {};

  /// Returns the number of parts into which a batch is cut, each of which is computed by itself.
  [[nodiscard]] int parts() const noexcept {
    return reproducible == Reproducible::any_rank_count ? DataParallelOptions{}.parts
           : parallel == Parallel::half_batches         ? 2 * ranks
                                                        : ranks;
  }
  /// Returns how often a process has rows that are in memory: once if batches are whole, and
  /// otherwise as they were read, and for the loader of each of its parts.
  [[nodiscard]] int copies_of_rows() const noexcept {
    return parts() == 1 ? 1 : 1 + parts() / (are_processes() ? ranks : 1);
  }
  /// Returns whether the ranks are processes that a launcher has started.
  [[nodiscard]] bool are_processes() const noexcept { return process.size() > 1; }
};

/// Whether a program can have its tables in parts, which Parallel::sharded needs.
enum class TablesInParts : bool { no, yes };

/// Adds the options for the ranks, under the title "Ranks". Only programs that can have tables in
/// parts get those for them.
void add_options(cli::Options& options,
                 RankOptions& chosen,
                 TablesInParts tables = TablesInParts::no);

/// Reads which rank this process is, and stores the number of ranks. Throws UsageError for
/// contradictions between the option and the variables of a launcher, for a number of ranks that
/// the options do not allow, unless each part of a batch of `batch` rows has as many, and for
/// options of tables in parts without Parallel::sharded.
void check_ranks(RankOptions& chosen, std::int64_t batch);
/// Throws UsageError if there are several ranks and one of the options is chosen. `options` are
/// pairs of whether it is, and of text such as "--check: checks one rank".
void refuse_with_ranks(RankOptions const& chosen,
                       std::vector<std::pair<bool, std::string>> const& options);
/// Adds the file of --plan to the inputs of a program if it exists, otherwise to the outputs, since
/// it is written then.
void add_plan(RankOptions const& chosen,
              std::vector<cli::InputOption>& inputs,
              std::vector<cli::OutputOption>& outputs);
/// Throws UsageError if CUDA is chosen and there are fewer GPUs than ranks.
void require_devices(RankOptions const& chosen, cli::StreamOptions const& streams);

/// Throws UsageError, which names the options and two processes, on all processes that a launcher
/// has started if their options differ, as `described` has them, except for paths. All of them call
/// it; does nothing for threads.
void require_equal_options(RankOptions const& chosen, nlohmann::ordered_json const& described);

/// Returns the options as JSON, for a program's report.
[[nodiscard]] nlohmann::ordered_json describe(RankOptions const& chosen);
/// Returns text for the first line of a program, such as "; 4 ranks, which are threads". Empty for
/// one rank.
[[nodiscard]] std::string ranks_text(RankOptions const& chosen);

/// Calls `train(world)` on each rank of this process: on one, or on threads. Returns the report of
/// rank 0, or null if this is a process of another rank. If a rank throws, the others end, and its
/// exception is thrown.
[[nodiscard]] nlohmann::ordered_json on_ranks(
    RankOptions const& chosen,
    std::function<nlohmann::ordered_json(comm::World const&)> const& train);

}  // namespace msstream::training
