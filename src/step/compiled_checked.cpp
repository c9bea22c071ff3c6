// SPDX-License-Identifier: Apache-2.0
#include <msstream/runtime/default_runtime.hpp>

namespace msstream {
using InstanceRuntime = Checked<PlainDefaultRuntime>;
}  // namespace msstream

#include "compiled_classes.hpp"
