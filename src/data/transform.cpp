// SPDX-License-Identifier: Apache-2.0
#include <msstream/data/transform.hpp>

#include <fmt/core.h>

#include <algorithm>

namespace msstream::data {

std::string to_string(Transform const& transform) {
  switch (transform.kind) {
    case Transform::Kind::hash:
      return fmt::format("hash(buckets={}, salt={})", transform.buckets, transform.salt);
    case Transform::Kind::vocabulary:
      return fmt::format("vocabulary(min_count={}, max_values={}, oov_buckets={})",
                         transform.min_count,
                         transform.max_values,
                         transform.buckets);
    case Transform::Kind::fill_missing:
      return fmt::format("fill_missing({})", transform.low);
    case Transform::Kind::clip:
      return fmt::format("clip({}, {})", transform.low, transform.high);
    case Transform::Kind::log1p:
      return "log1p()";
    case Transform::Kind::normalize:
      return "normalize()";
  }
  return "unknown";
}

bool fills_missing(std::vector<Transform> const& transforms) {
  return std::ranges::find(transforms, Transform::Kind::fill_missing, &Transform::kind) !=
         transforms.end();
}

}  // namespace msstream::data
