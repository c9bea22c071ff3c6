// SPDX-License-Identifier: Apache-2.0
#include "branch_run.hpp"

namespace train_branches {

nlohmann::ordered_json train_on_cuda(BranchOptions const& options) {
  return train_branches_on<ms::Cuda>(options);
}

}  // namespace train_branches
