// SPDX-License-Identifier: Apache-2.0
#include "ids/cast_ids_types.hpp"

#include <algorithm>

namespace msstream::ops::kernels {

void cast_ids(HostStream stream, CastIdsArgs const& args) {
  with_cast_types(args, [&](auto from, auto to) {
    stream.run([args] {
      auto const* const ids = static_cast<decltype(from) const*>(args.from);
      std::transform(ids, ids + args.count, static_cast<decltype(to)*>(args.to), [](auto id) {
        return cast_id<decltype(to)>(id);
      });
    });
  });
}

}  // namespace msstream::ops::kernels
