// SPDX-License-Identifier: Apache-2.0
#include "ple_run.hpp"

namespace train_ple {

nlohmann::ordered_json train_on_host(PleOptions const& options,
                                     ms::training::TrainingData& data,
                                     ms::comm::World const& world,
                                     std::optional<ms::training::TableParts> const& parts) {
  return train_ple_on<ms::Host>(options, data, world, parts);
}

}  // namespace train_ple
