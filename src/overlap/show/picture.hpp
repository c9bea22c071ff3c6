// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/show/explained.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace msstream::overlap {

struct PictureOptions {
  int width = 960;                ///< of the picture, in pixels, at least 400
  std::size_t most_streams = 16;  ///< lanes of a device; the busiest are drawn
  std::size_t most_threads = 2;   ///< lanes of calls; those with the most calls are drawn
  std::size_t most_arrows = 200;  ///< of waits; none are drawn if there are more
  std::size_t most_findings = 4;
  bool only_timeline = false;  ///< draw what ran when, and neither causes nor findings
};

/// Returns a picture of reports as SVG, for pages and messages: for each device, where the time
/// went, a lane for each stream, shaded by cause where time was lost or idle, the calls of the
/// threads that issued the work, arrows for waits, and the largest findings. Names are untrusted:
/// the picture shows them as text. Equal reports give equal bytes.
[[nodiscard]] std::string svg_text(std::span<Explained const> reports,
                                   PictureOptions const& options = {});

}  // namespace msstream::overlap
