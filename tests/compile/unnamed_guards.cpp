// SPDX-License-Identifier: Apache-2.0
// Guards without a name are destroyed at once and guard nothing. The script unnamed_guards.sh
// expects a compiler warning for each marked line.
#include "stream/stream_hold.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/tensor_holder.hpp>
#include <msstream/trace/name_scope.hpp>
#include <msstream/trace/range.hpp>

namespace ms = msstream;

void unnamed(ms::Device<> const& device, ms::StreamPool<>& pool, ms::GradientTape<>& tape) {
  auto const compute = pool[1].compute();
  ms::StreamScope{pool[1]};                                    // warns
  ms::StreamScope<>{pool[1], {.include_grad = true}};          // warns
  ms::NameScope{"user"};                                       // warns
  ms::TensorHolder{compute};                                   // warns
  ms::detail::StreamHold{device.runtime(), compute.native()};  // warns
  ms::GradientTape<>::Pause{tape};                             // warns
  ms::trace::Range{"load"};                                    // warns
  pool.acquire();                                              // warns
}

void named(ms::StreamPool<>& pool, ms::GradientTape<>& tape) {
  ms::StreamScope const scope{pool[1]};
  ms::NameScope const user("user");
  ms::TensorHolder const holder(pool[1].compute());
  ms::GradientTape<>::Pause const paused(tape);
  ms::trace::Range const range("load");
  auto const lease = pool.acquire();
}
