// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::comm::detail {

/// The ranks of a world that World::split() has made.
struct Group {
  std::string id;            ///< a text that no other group of the program has; never empty
  std::vector<int> members;  ///< by rank in the group, the rank in the whole world
};
/// Null stands for all ranks of the program.
using SharedGroup = std::shared_ptr<Group const>;

/// Returns the number in the whole world of a rank of the group.
[[nodiscard]] int rank_in_whole(SharedGroup const& group, int rank);
/// Returns the number in the group of a rank of the whole world; -1 if it is not of the group.
[[nodiscard]] int rank_in_group(SharedGroup const& group, int rank_in_whole);
/// Returns the text that tells communicators of one name in different groups apart.
[[nodiscard]] std::string key_of(SharedGroup const& group, std::string const& name);

/// The character with which names of the library's own begin, and no communicator's of a user.
inline constexpr char kGroupMark = '\x1f';

/// The name under which ranks meet in World::split().
inline constexpr char const* kSplitName = "\x1fsplit";

/// Returns a text for messages such as "communicator 'inside' of ranks 4 to 7 of the whole world".
[[nodiscard]] std::string title_of(SharedGroup const& group, std::string const& name);
/// Returns what ranks call to meet under a name, for messages.
[[nodiscard]] std::string_view entry_of(std::string const& name);
/// Returns a text for messages such as "rank 1 (5 of the whole world)". A rank of -1 stands for one
/// that is not of the group.
[[nodiscard]] std::string text_of_rank(SharedGroup const& group, int rank, int rank_in_whole);

}  // namespace msstream::comm::detail
