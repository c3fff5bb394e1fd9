#include "reports/files/json_schema.h"

#include <nlohmann/json.hpp>

#include "reports/columns.h"
#include "reports/files/json_value.h"
#include "reports/record.h"
#include "reports/statistics/role.h"

namespace stbench::reports {
namespace {

using Json = nlohmann::ordered_json;

Json texts() { return {{"type", "array"}, {"items", {{"type", "string"}}}}; }

Json numbers_or_null() {
  return {{"type", "array"}, {"items", {{"type", {"number", "null"}}, {"minimum", 0}}}};
}

Json statuses() {
  Json names = Json::array();
  for (const Status status : {Status::ok, Status::unstable, Status::waived, Status::wrong, Status::failed})
    names.push_back(to_string(status));
  return {{"enum", names}};
}

Json column(const Column& column) {
  if (column.name == "status") return statuses();
  if (column.kind == Kind::text) return {{"type", "string"}};
  if (column.kind == Kind::integer) return {{"type", "integer"}, {"minimum", 0}};
  return {{"type", {"number", "null"}}, {"minimum", 0}};
}

/// A row that is neither `ok` nor `unstable` has no time and nothing that follows from one.
Json no_numbers_without_measurement() {
  Json nothing = Json::object();
  for (const Column& one : fixed_columns()) {
    if (one.kind == Kind::real) nothing[std::string(one.name)] = {{"type", "null"}};
  }
  return {{"if", {{"properties", {{"status", {{"enum", {"waived", "wrong", "failed"}}}}}}}},
          {"then", {{"properties", nothing}}}};
}

Json a_case() {
  Json properties = Json::object();
  Json required = Json::array();
  for (const Column& one : fixed_columns()) {
    properties[std::string(one.name)] = column(one);
    required.push_back(one.name);
  }
  for (const auto& [axis, standard] : known_axes()) {
    const char* const kind = std::holds_alternative<std::string>(standard)    ? "string"
                             : std::holds_alternative<std::int64_t>(standard) ? "integer"
                                                                              : "number";
    properties[axis] = {{"type", {kind, "null"}}, {"default", json_of(standard)}};
  }
  Json roles = Json::array();
  for (const Role role : {Role::ours, Role::libtorch, Role::ceiling, Role::peer})
    roles.push_back(to_string(role));
  properties["role"] = {{"enum", roles}};
  properties["samples_s"] = numbers_or_null();
  required.push_back("samples_s");
  Json schema = {{"type", "object"},
                 {"properties", properties},
                 {"required", required},
                 {"additionalProperties", {{"type", {"string", "number", "boolean", "null"}}}}};
  schema.update(no_numbers_without_measurement());
  return schema;
}

Json doctor() {
  const Json text_or_null = {{"type", {"string", "null"}}};
  const Json finding = {{"type", "object"},
                        {"properties",
                         {{"check", {{"type", "string"}}},
                          {"verdict", {{"enum", {"fine", "note", "spoils", "unknown"}}}},
                          {"found", {{"type", "string"}}},
                          {"rows", text_or_null},
                          {"cure", text_or_null}}},
                        {"required", {"check", "verdict", "found", "rows", "cure"}}};
  return {{"type", "object"},
          {"properties", {{"findings", {{"type", "array"}, {"items", finding}}}}},
          {"required", {"findings"}}};
}

Json top_properties() {
  return {{"schema_version", {{"type", "string"}, {"pattern", "^1(\\.[0-9]+)?$"}}},
          {"program", {{"type", "string"}}},
          {"argv", texts()},
          {"seed", {{"type", "integer"}, {"minimum", 0}}},
          {"started_at", {{"type", "string"}}},
          {"interrupted", {{"type", "boolean"}}},
          {"environment",
           {{"type", "object"},
            {"properties", {{"doctor", doctor()}}},
            {"additionalProperties", {{"type", "object"}}}}},
          {"warnings", texts()},
          {"axes", texts()},
          {"conclusion", texts()},
          {"cases", {{"type", "array"}, {"items", a_case()}}}};
}

}  // namespace

std::string json_schema() {
  const Json schema = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"title", "A report of stbench, schema 1"},
      {"description",
       "Made by `stbench schema` from the program's table of columns; docs/schema.md explains it."},
      {"type", "object"},
      {"properties", top_properties()},
      {"required",
       {"schema_version", "program", "argv", "seed", "started_at", "environment", "warnings", "axes",
        "cases"}}};
  return schema.dump(2) + "\n";
}

}  // namespace stbench::reports
