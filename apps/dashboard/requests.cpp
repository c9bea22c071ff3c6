// SPDX-License-Identifier: Apache-2.0
#include "dashboard/requests.hpp"

#include "dashboard/board.hpp"
#include "dashboard/page_text.hpp"

#include <algorithm>
#include <utility>

namespace msstream::dashboard {

namespace {

constexpr char const* kPlain = "text/plain; charset=utf-8";

bool equal_but_for_case(std::string_view a, std::string_view b) {
  auto const lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

}  // namespace

bool is_own_host(std::string_view host) {
  auto const colon = host.find(':');
  if (colon != std::string_view::npos) {
    auto const port = host.substr(colon + 1);
    bool const is_port = !port.empty() && port.size() <= 5 &&
                         std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
    if (!is_port) {
      return false;
    }
    host = host.substr(0, colon);
  }
  return host == "127.0.0.1" || equal_but_for_case(host, "localhost");
}

Answer answer_to(Request const& request, Board& board) {
  if (request.hosts.size() != 1 || !is_own_host(request.hosts.front())) {
    return {403, kPlain, "The dashboard answers only at 127.0.0.1 and localhost.\n"};
  }
  bool const is_cross_site = std::ranges::any_of(request.fetch_sites, [](std::string_view site) {
    return equal_but_for_case(site, "cross-site");
  });
  if (is_cross_site) {
    return {403,
            kPlain,
            "The dashboard does not answer pages of other sites, nor links in them. Enter its "
            "address in the browser.\n"};
  }
  if (request.method != "GET") {
    return {405, kPlain, "The dashboard answers only GET.\n"};
  }
  for (auto const& file : page_files()) {
    if (request.path == file.path) {
      return {200, file.content_type, std::string(file.text)};
    }
  }
  if (request.path == "/state.json") {
    auto state = board.state();
    return {200, "application/json", std::move(state.json), state.has_end};
  }
  if (request.path == "/timeline.json") {
    return {200, "application/json", board.timeline_json()};
  }
  return {404, kPlain, "There is nothing at this address.\n"};
}

std::vector<Header> const& headers_of_answers() {
  static std::vector<Header> const headers{
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src "
       "data:; "
       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cache-Control", "no-store"},
      {"Connection", "close"}};
  return headers;
}

}  // namespace msstream::dashboard
