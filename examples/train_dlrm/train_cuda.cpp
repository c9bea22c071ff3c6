// SPDX-License-Identifier: Apache-2.0
#include "dlrm_run.hpp"

namespace train_dlrm {

nlohmann::ordered_json train_on_cuda(DlrmOptions const& options,
                                     ms::training::TrainingData& data,
                                     ms::comm::World const& world) {
  return train_dlrm_on<ms::Cuda>(options, data, world);
}

}  // namespace train_dlrm
