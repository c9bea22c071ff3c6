// SPDX-License-Identifier: Apache-2.0
#include "dlrm_run.hpp"

namespace train_dlrm {

nlohmann::ordered_json train_on_host(DlrmOptions const& options,
                                     ms::training::TrainingData& data,
                                     ms::comm::World const& world,
                                     std::optional<ms::training::TableParts> const& parts) {
  return train_dlrm_on<ms::Host>(options, data, world, parts);
}

}  // namespace train_dlrm
