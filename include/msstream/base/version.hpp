// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

/// The version of the headers. That of the compiled library is `msstream::version()`. CMake refuses
/// numbers that differ from those of project(msstream VERSION …) in CMakeLists.txt.
#define MSSTREAM_VERSION_MAJOR 0
#define MSSTREAM_VERSION_MINOR 1
#define MSSTREAM_VERSION_PATCH 0

/// The version of the headers as a number for comparisons, such as 102 for 0.1.2.
#define MSSTREAM_VERSION \
  (MSSTREAM_VERSION_MAJOR * 10000 + MSSTREAM_VERSION_MINOR * 100 + MSSTREAM_VERSION_PATCH)

/// The version of the headers as a text, such as "0.1.2".
#define MSSTREAM_VERSION_STRING \
  MSSTREAM_VERSION_TEXT(MSSTREAM_VERSION_MAJOR, MSSTREAM_VERSION_MINOR, MSSTREAM_VERSION_PATCH)
#define MSSTREAM_VERSION_TEXT(major, minor, patch) MSSTREAM_VERSION_TEXT_OF(major, minor, patch)
#define MSSTREAM_VERSION_TEXT_OF(major, minor, patch) #major "." #minor "." #patch

namespace msstream {

/// Returns the version of the compiled library, such as "0.1.2". A program whose headers have
/// another version does not link, so that in a running program it is MSSTREAM_VERSION_STRING.
[[nodiscard]] std::string_view version() noexcept;

}  // namespace msstream
