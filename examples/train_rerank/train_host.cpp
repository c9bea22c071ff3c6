// SPDX-License-Identifier: Apache-2.0
#include "rerank_run.hpp"

namespace train_rerank {

nlohmann::ordered_json train_on_host(RerankOptions const& options,
                                     RerankData const& data,
                                     ms::comm::World const& world) {
  return train_rerank_on<ms::Host>(options, data, world);
}

}  // namespace train_rerank
