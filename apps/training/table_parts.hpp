// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/lookups_in_parts.hpp"
#include "training/rank_options.hpp"
#include "training/update_options.hpp"

#include <msstream/comm/communicator.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/step/table_plan.hpp>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace msstream::training {

/// Tables that are in parts on all ranks.
struct TableParts {
  std::vector<TableSpec> specs;
  TablePlan plan;
};

/// Returns where the tables are, if the options ask for tables in parts: the plan in the file of
/// --plan, or a plan that is chosen, and saved by rank 0 if --plan names a file that does not
/// exist. Rank 0 prints it unless `quiet`. Throws std::invalid_argument, with the file, for a file
/// that is no plan for these tables, or divides tables by columns where the update rule has one
/// number a row. Chosen plans do not.
[[nodiscard]] std::optional<TableParts> table_parts(std::vector<TableSpec> specs,
                                                    RankOptions const& chosen,
                                                    UpdateOptions const& update,
                                                    bool quiet);

/// Returns the lookups in tables in parts on a rank, if there are any, for batches of `batch` rows
/// of all ranks. They have a communicator of their own, so that their collectives run beside those
/// of the dense gradients. Blocks the host until all ranks have called it.
template <Runtime R>
[[nodiscard]] std::optional<LookupsInParts<R>> make_lookups(Device<R> const& device,
                                                            std::optional<TableParts> const& parts,
                                                            comm::World const& world,
                                                            RankOptions const& chosen,
                                                            std::int64_t batch,
                                                            std::uint64_t seed) {
  if (!parts) {
    return std::nullopt;
  }
  return LookupsInParts<R>(
      ShardedTables<R>(parts->specs,
                       comm::Communicator<R>(device, world, {.name = "tables"}),
                       {.most_samples = batch / world.size(), .seed = seed},
                       parts->plan),
      chosen.lookahead);
}

}  // namespace msstream::training
