// SPDX-License-Identifier: Apache-2.0
#include "dashboard/requests.hpp"

#include "dashboard/board.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::dashboard {
namespace {

using testing::HasSubstr;
using testing::Not;

Answer answer_at(std::string_view path) {
  Board board({});
  return answer_to({.method = "GET", .path = path, .hosts = {"127.0.0.1:8080"}}, board);
}

TEST(Requests, have_the_page_and_its_parts) {
  EXPECT_EQ(answer_at("/").status, 200);
  EXPECT_THAT(answer_at("/").text, HasSubstr("<script src=\"page.js\" defer></script>"));
  for (auto const* const path : {"/page.js", "/curves.js", "/timeline.js", "/page.css"}) {
    EXPECT_EQ(answer_at(path).status, 200) << path;
    EXPECT_THAT(answer_at("/").text, HasSubstr(path + 1));
  }
  EXPECT_EQ(answer_at("/state.json").status, 200);
  EXPECT_STREQ(answer_at("/timeline.json").content_type, "application/json");
}

TEST(Requests, an_answer_knows_whether_it_has_the_end) {
  Board board({});
  auto const has_end = [&](std::string_view path) {
    return answer_to({.method = "GET", .path = path, .hosts = {"localhost"}}, board).has_end;
  };
  EXPECT_FALSE(has_end("/state.json"));
  board.note_end({EndStatus::finished, "finished"});
  EXPECT_TRUE(has_end("/state.json"));
  EXPECT_FALSE(has_end("/timeline.json"));
  EXPECT_FALSE(has_end("/"));
}

TEST(Requests, other_paths_are_not_there) {
  for (auto const* const path :
       {"", "/..", "/page.js/", "//", "/../../etc/passwd", "/STATE.json"}) {
    EXPECT_EQ(answer_at(path).status, 404) << path;
  }
}

TEST(Requests, other_methods_are_refused) {
  Board board({});
  for (auto const* const method : {"POST", "HEAD", "OPTIONS", "get", "PUT", ""}) {
    EXPECT_EQ(answer_to({.method = method, .path = "/", .hosts = {"localhost"}}, board).status, 405)
        << method;
  }
}

TEST(Requests, own_hosts_are_names_of_this_machine) {
  for (auto const* const host : {"127.0.0.1", "127.0.0.1:1", "localhost", "LocalHost:65535"}) {
    EXPECT_TRUE(is_own_host(host)) << host;
  }
  for (auto const* const host : {"",
                                 "evil.example",
                                 "127.0.0.1.evil.example",
                                 "localhost.evil.example:80",
                                 "127.0.0.1:",
                                 "127.0.0.1:x",
                                 "127.0.0.1:123456",
                                 "127.0.0.1:80@evil.example",
                                 "evil.example:80",
                                 " localhost",
                                 "0.0.0.0",
                                 "127.0.0.2"}) {
    EXPECT_FALSE(is_own_host(host)) << host;
  }
}

TEST(Requests, foreign_hosts_are_refused_before_anything_else) {
  Board board({});
  EXPECT_EQ(answer_to({.method = "GET", .path = "/", .hosts = {"evil.example"}}, board).status,
            403);
  EXPECT_EQ(answer_to({.method = "GET", .path = "/", .hosts = {}}, board).status, 403);
  EXPECT_EQ(answer_to({.method = "GET", .path = "/", .hosts = {"localhost", "evil.example"}}, board)
                .status,
            403);
}

// A page of another site cannot read an answer, but asking would make the training record steps.
TEST(Requests, pages_of_other_sites_are_refused_and_do_not_watch) {
  Board board({});
  auto const status_for = [&](std::vector<std::string_view> sites) {
    return answer_to({.method = "GET",
                      .path = "/state.json",
                      .hosts = {"localhost"},
                      .fetch_sites = std::move(sites)},
                     board)
        .status;
  };
  EXPECT_EQ(status_for({"cross-site"}), 403);
  EXPECT_EQ(status_for({"Cross-Site"}), 403);
  EXPECT_EQ(status_for({"same-origin", "cross-site"}), 403);
  EXPECT_FALSE(board.is_watched());
  EXPECT_EQ(status_for({}), 200);
  EXPECT_EQ(status_for({"same-origin"}), 200);
  EXPECT_EQ(status_for({"none"}), 200);  // an address that the user entered
  EXPECT_TRUE(board.is_watched());
}

TEST(Requests, the_page_names_no_other_host) {
  for (auto const* const path : {"/", "/page.js", "/curves.js", "/timeline.js", "/page.css"}) {
    auto const text = answer_at(path).text;
    EXPECT_THAT(text, Not(HasSubstr("http:"))) << path;
    EXPECT_THAT(text, Not(HasSubstr("https:"))) << path;
    EXPECT_THAT(text, Not(HasSubstr("innerHTML"))) << path;
  }
}

}  // namespace
}  // namespace msstream::dashboard
