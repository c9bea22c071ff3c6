// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace msstream::dashboard {

class Board;

/// The parts of an HTTP request by which the server chooses its answer.
struct Request {
  std::string_view method;
  std::string_view path;                ///< without a query
  std::vector<std::string_view> hosts;  ///< the values of all Host headers
  /// The values of all Sec-Fetch-Site headers, by which a browser says whose page asks.
  std::vector<std::string_view> fetch_sites = {};
};

struct Answer {
  int status;
  char const* content_type;
  std::string text;
  bool has_end = false;  ///< whether the client learns by it how the training has ended
};

/// Returns the answer to a request: the page, its parts, or the numbers of the board as JSON.
/// Refuses methods other than GET; hosts other than this machine's own names, by which a page of
/// another site could read the numbers (DNS rebinding); and what a browser asks for a page of
/// another site, which could not read the answer, but would make the training record its steps.
[[nodiscard]] Answer answer_to(Request const& request, Board& board);

/// Returns whether a Host header names this machine by an address or name of its own: 127.0.0.1 or
/// localhost, with any port, since a tunnel may have another one.
[[nodiscard]] bool is_own_host(std::string_view host);

/// A header of every answer.
struct Header {
  char const* name;
  char const* value;
};
/// Returns the headers that keep a browser from running or sending anything but the page's own
/// parts, from showing the page inside another one, and from keeping it.
[[nodiscard]] std::vector<Header> const& headers_of_answers();

}  // namespace msstream::dashboard
