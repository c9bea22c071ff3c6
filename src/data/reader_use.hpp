// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/reader.hpp>

namespace msstream::data::detail {

/// The use of a reader by one user, while it exists.
class ReaderUse {
 public:
  /// `user` is a literal. Throws std::invalid_argument, which names the reader's first file and
  /// both users, if there is another user.
  ReaderUse(Reader& reader, char const* user);
  ReaderUse(ReaderUse const&) = delete;
  ReaderUse& operator=(ReaderUse const&) = delete;
  ~ReaderUse();

  /// Puts a reader that had a user before to its beginning.
  void begin();

 private:
  Reader& reader_;
  bool used_;  ///< by another user before
};

}  // namespace msstream::data::detail
