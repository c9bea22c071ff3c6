// SPDX-License-Identifier: Apache-2.0
#include "ple_run.hpp"

#include <utility>

namespace train_ple {

nlohmann::ordered_json train_on_cuda(PleOptions const& options, ms::training::TrainingData data) {
  return train_ple_on<ms::Cuda>(options, std::move(data));
}

}  // namespace train_ple
