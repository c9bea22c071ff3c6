// SPDX-License-Identifier: Apache-2.0
#include "branch_run.hpp"

namespace train_branches {

nlohmann::ordered_json train_on_host(BranchOptions const& options) {
  return train_branches_on<ms::Host>(options);
}

}  // namespace train_branches
