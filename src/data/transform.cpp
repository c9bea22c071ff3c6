// SPDX-License-Identifier: Apache-2.0
#include <msstream/data/transform.hpp>

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>

namespace msstream::data {

namespace {

std::string to_string(Transform::UnixTime const& unit) {
  return fmt::format("(per_second={}, utc_offset_s={})", unit.per_second, unit.utc_offset_s);
}

}  // namespace

std::string to_string(Transform const& transform) {
  switch (transform.kind) {
    case Transform::Kind::hash:
      return fmt::format("hash(buckets={}, salt={})", transform.buckets, transform.salt);
    case Transform::Kind::vocabulary:
      return fmt::format("vocabulary(min_count={}, max_values={}, oov_buckets={}{}{})",
                         transform.min_count,
                         transform.max_values,
                         transform.buckets,
                         transform.name.empty() ? "" : ", name=",
                         transform.name);
    case Transform::Kind::fill_missing:
      return fmt::format("fill_missing({})", transform.low);
    case Transform::Kind::clip:
      return fmt::format("clip({}, {})", transform.low, transform.high);
    case Transform::Kind::log1p:
      return "log1p()";
    case Transform::Kind::normalize:
      return "normalize()";
    case Transform::Kind::bucketize:
      return fmt::format("bucketize({})", fmt::join(transform.boundaries, ", "));
    case Transform::Kind::quantiles:
      return fmt::format("quantiles({})", transform.buckets);
    case Transform::Kind::hour_of_day:
      return "hour_of_day" + to_string(transform.unit);
    case Transform::Kind::day_of_week:
      return "day_of_week" + to_string(transform.unit);
    case Transform::Kind::first:
      return fmt::format("first({})", transform.max_values);
    case Transform::Kind::last:
      return fmt::format("last({})", transform.max_values);
  }
  return "unknown";
}

bool fills_missing(std::vector<Transform> const& transforms) {
  return std::ranges::find(transforms, Transform::Kind::fill_missing, &Transform::kind) !=
         transforms.end();
}

}  // namespace msstream::data
