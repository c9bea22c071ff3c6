// SPDX-License-Identifier: Apache-2.0
#include "wdl_run.hpp"

namespace serve_wdl {

nlohmann::ordered_json serve_on_cuda(WdlOptions const& options) {
  return serve_wdl_on<ms::Cuda>(options);
}

}  // namespace serve_wdl
