// SPDX-License-Identifier: Apache-2.0
#include "mlp_run.hpp"

namespace serve_mlp {

nlohmann::ordered_json serve_on_host(MlpOptions const& options) {
  return serve_mlp_on<ms::Host>(options);
}

}  // namespace serve_mlp
