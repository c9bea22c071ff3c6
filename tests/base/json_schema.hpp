// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace msstream::testing {

namespace detail {

/// Checks a value against a rule of a schema, and adds what is wrong.
inline void check_schema(nlohmann::json const& value,
                         nlohmann::json const& rule,
                         std::string const& path,
                         nlohmann::json const& root,
                         std::vector<std::string>& wrong) {
  if (rule.contains("$ref")) {
    auto const name = rule["$ref"].get<std::string>().substr(std::string("#/$defs/").size());
    return check_schema(value, root["$defs"].at(name), path, root, wrong);
  }
  if (rule.contains("const") && value != rule["const"]) {
    wrong.push_back(path + " is not " + rule["const"].dump());
  }
  if (rule.contains("enum") && std::ranges::find(rule["enum"], value) == rule["enum"].end()) {
    wrong.push_back(path + " is " + value.dump());
  }
  if (rule.contains("type")) {
    auto const types =
        rule["type"].is_array() ? rule["type"] : nlohmann::json::array({rule["type"]});
    bool const fits = std::ranges::any_of(types, [&](nlohmann::json const& type) {
      return (type == "object" && value.is_object()) || (type == "array" && value.is_array()) ||
             (type == "string" && value.is_string()) || (type == "null" && value.is_null()) ||
             (type == "boolean" && value.is_boolean()) ||
             (type == "integer" && value.is_number_integer()) ||
             (type == "number" && value.is_number());
    });
    if (!fits) {
      wrong.push_back(path + " is " + value.dump() + ", not " + rule["type"].dump());
    }
  }
  if (rule.contains("minimum") && value.is_number() && value < rule["minimum"]) {
    wrong.push_back(path + " is below " + rule["minimum"].dump());
  }
  if (value.is_object() && rule.contains("properties")) {
    for (auto const& name : rule.value("required", nlohmann::json::array())) {
      if (!value.contains(name.get<std::string>())) {
        wrong.push_back(path + " lacks " + name.dump());
      }
    }
    for (auto const& [name, member] : value.items()) {
      if (rule["properties"].contains(name)) {
        check_schema(member, rule["properties"][name], path + "." + name, root, wrong);
      } else {
        wrong.push_back(path + "." + name + " is not described");
      }
    }
  }
  if (value.is_array() && rule.contains("items")) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      check_schema(value[i], rule["items"], path + "[" + std::to_string(i) + "]", root, wrong);
    }
  }
}

}  // namespace detail

/// Returns what is wrong with a value by the part of JSON Schema that the schemas in docs/ use; all
/// members must be described. Empty if nothing is.
[[nodiscard]] inline std::vector<std::string> schema_mistakes(nlohmann::json const& value,
                                                              nlohmann::json const& schema) {
  std::vector<std::string> wrong;
  detail::check_schema(value, schema, "report", schema, wrong);
  return wrong;
}

}  // namespace msstream::testing
