// SPDX-License-Identifier: Apache-2.0
#include "memory/device/synchronize_uses.hpp"
#include "stream/stream.hpp"

#include <msstream/tensor/detail/exchange.hpp>

#include <mutex>

namespace msstream::detail {

void await_uses(AnyTensor const& tensor, char const* call) {
  synchronize_uses(*tensor.block(), AccessMode::write, call);
  tensor.block()->shared_outside = true;
}

void note_writes_of(AnyStream const& stream, AnyTensor const& tensor) {
  auto const position = stream.engine()->mark();
  auto& record = tensor.block()->record;
  std::lock_guard const guard(record.lock);
  record.note_foreign(AccessMode::write, position);
}

}  // namespace msstream::detail
