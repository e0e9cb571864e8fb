// YAML is read by the core schema with lines of fields, within bounds of depth, size and aliases.
#include "spec/yaml.hpp"

#include <doctest/doctest.h>

#include <boost/json/serialize.hpp>

using osm::ErrorCode;
using namespace osm::spec;

namespace {

std::string json_of(std::string_view text) {
  const auto documents = parse_yaml(text);
  REQUIRE(documents.size() == 1);
  if (const auto* error = std::get_if<YamlError>(&documents[0])) return "error: " + error->cause;
  return boost::json::serialize(std::get<YamlDocument>(documents[0]).value);
}

YamlError error_of(std::string_view text) {
  const auto documents = parse_yaml(text);
  REQUIRE_FALSE(documents.empty());
  const auto* error = std::get_if<YamlError>(&documents.back());
  REQUIRE_MESSAGE(error != nullptr, text.substr(0, 200));
  return *error;
}

std::string repeated(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

}  // namespace

TEST_SUITE("spec::parse_yaml") {
  TEST_CASE("plain scalars follow the core schema and quoted ones stay strings") {
    struct Row {
      const char* yaml;
      const char* json;
    };
    const Row rows[] = {
        {"a: null", R"({"a":null})"},
        {"a: ~", R"({"a":null})"},
        {"a:", R"({"a":null})"},
        {"a: true", R"({"a":true})"},
        {"a: FALSE", R"({"a":false})"},
        {"a: yes", R"({"a":"yes"})"},
        {"a: off", R"({"a":"off"})"},
        {"a: 80", R"({"a":80})"},
        {"a: -7", R"({"a":-7})"},
        {"a: +7", R"({"a":7})"},
        {"a: 0x1F", R"({"a":31})"},
        {"a: 0o17", R"({"a":15})"},
        {"a: 007", R"({"a":7})"},
        {"a: 18446744073709551615", R"({"a":18446744073709551615})"},
        {"a: 1.5", R"({"a":1.5E0})"},
        {"a: 1e3", R"({"a":1E3})"},
        {"a: 1_000", R"({"a":"1_000"})"},
        {"a: 10.0.0.1", R"({"a":"10.0.0.1"})"},
        {"a: .inf", R"({"a":".inf"})"},
        {"a: 0x", R"({"a":"0x"})"},
        {"a: '80'", R"({"a":"80"})"},
        {"a: \"true\"", R"({"a":"true"})"},
        {"a: ''", R"({"a":""})"},
        {"a: !!str 80", R"({"a":"80"})"},
        {"a: |\n  80\n", R"({"a":"80\n"})"},
        {R"({"a": [1, "2", null], "b": {"c": false}})", R"({"a":[1,"2",null],"b":{"c":false}})"},
        {"1: x", R"({"1":"x"})"},
    };
    for (const Row& row : rows) {
      CAPTURE(row.yaml);
      CHECK(json_of(row.yaml) == row.json);
    }
  }

  TEST_CASE("every field remembers the line of its key, in the file and not in its document") {
    const auto documents = parse_yaml(
        "# first\n---\na: 1\n---\n\nspec:\n  rules:\n  - kind: X\n    name: y\n"
        "  labels:\n    app.kubernetes.io/name: z\n");
    REQUIRE(documents.size() == 2);
    const auto& second = std::get<YamlDocument>(documents[1]);
    CHECK(second.line == 6);
    CHECK(second.lines.at("spec") == 6);
    CHECK(second.lines.at("spec.rules") == 7);
    CHECK(second.lines.at("spec.rules[0]") == 8);
    CHECK(second.lines.at("spec.rules[0].name") == 9);
    CHECK(second.lines.at("spec.labels[app.kubernetes.io/name]") == 11);
  }

  TEST_CASE("documents are split at --- lines only, and empty ones are skipped") {
    CHECK(parse_yaml("").empty());
    CHECK(parse_yaml("# only a comment\n---\n---\n# another\n").empty());
    CHECK(parse_yaml("%YAML 1.2\n---\na: 1\n").size() == 1);
    CHECK(parse_yaml("a: 1\r\n---\r\nb: 2\r\n").size() == 2);
    CHECK(parse_yaml("--- {a: 1}\n--- {b: 2}\n").size() == 2);
    CHECK(parse_yaml("\xef\xbb\xbf"
                     "a: 1\n")
              .size() == 1);
    CHECK(json_of("a: |\n  ---\n  text\n") == R"({"a":"---\ntext\n"})");
    CHECK(json_of("a: ---b\n") == R"({"a":"---b"})");
  }

  TEST_CASE("JSON is read as JSON: escapes, several values, and the line of each field") {
    CHECK(json_of(R"({"a": "\ud83d\ude00"})") == "{\"a\":\"\xf0\x9f\x98\x80\"}");
    const auto several =
        parse_yaml("{\"a\":1}{\"a\":2}\n\n{\n \"a\": {\"b\": [3,\n  4]}\n}\n---\na: 5\n");
    REQUIRE(several.size() == 4);
    const auto& third = std::get<YamlDocument>(several[2]);
    CHECK(third.line == 3);
    CHECK(third.lines.at("a.b") == 4);
    CHECK(third.lines.at("a.b[1]") == 5);
    CHECK(std::get<YamlDocument>(several[1]).line == 1);
    CHECK(std::get<YamlDocument>(several[3]).line == 8);
    CHECK(parse_yaml("---\n{\"a\": 1}\n---\n{\"b\": \"\\ud83d\\ude00\"}\n").size() == 2);
    // Text that only YAML reads stays YAML.
    CHECK(json_of("{a: 1, b: [x]}") == R"({"a":1,"b":["x"]})");
    CHECK(json_of("{\"a\": x} # note") == R"({"a":"x"})");
    const YamlError broken = error_of("{\"a\": 1,\n \"b\": \"\\ud83d\"\n}\n");
    CHECK(broken.line == 2);
    CHECK_MESSAGE(broken.cause.starts_with("not JSON: "), broken.cause);
    CHECK(error_of("{\"a\": 1}\n{\"a\": 1, \"a\": 2}\n").line == 2);
    CHECK(error_of("{\"a\": 1}\n{\"b\": [1\n").cause.starts_with("not JSON: "));
    CHECK(error_of("{\"a\": " + std::string(70, '[') + std::string(70, ']') + "}").code ==
          ErrorCode::kTooLarge);
  }

  TEST_CASE("a parse error has its line") {
    struct Row {
      std::string yaml;
      ErrorCode code;
      int line;
      const char* cause;
    };
    const Row rows[] = {
        {"a: 1\nb: [1, 2\nc: 3\n", ErrorCode::kInvalidSyntax, 3, "not YAML"},
        {"a: 1\nb:\n\t- x\n", ErrorCode::kInvalidSyntax, 3, "not YAML"},
        {"a: 1\nb: 2\na: 3\n", ErrorCode::kInvalidSyntax, 3, "duplicate key \"a\""},
        {"a: 1\n---\nb: {c: 1, c: 2}\n", ErrorCode::kInvalidSyntax, 3, "duplicate key \"c\""},
        {"x: &x {a: 1}\ny:\n  <<: *x\n", ErrorCode::kInvalidSyntax, 3, "merge keys"},
        {"a: !secret b\n", ErrorCode::kInvalidSyntax, 1, "the tag"},
        {"a: *nobody\n", ErrorCode::kInvalidSyntax, 1, "not YAML"},
        {"a: &a [*a]\n", ErrorCode::kInvalidSyntax, 1, "inside its own anchor"},
        {"? [1, 2]\n: x\n", ErrorCode::kInvalidSyntax, 1, "as a key"},
        {"a: 1\n...\nb: 2\n", ErrorCode::kInvalidSyntax, 1, "second document"},
        {"a: 1\nb: \xff\n", ErrorCode::kInvalidSyntax, 2, "not UTF-8"},
        {"a: 1\r\nb: [2\r]\n", ErrorCode::kInvalidSyntax, 2, "a carriage return"},
        {"a: 1\nb: \"\\N\"\n", ErrorCode::kInvalidSyntax, 2, "\\u0085 for \\N"},
        {"a: 1\n\"\\_\": b\n", ErrorCode::kInvalidSyntax, 2, "not UTF-8"},
        {"a: \xed\xa0\x80\n", ErrorCode::kInvalidSyntax, 1, "not UTF-8"},
        {std::string("a: 1\nb: \0x\n", 11), ErrorCode::kInvalidSyntax, 2, "not UTF-8"},
    };
    for (const Row& row : rows) {
      CAPTURE(row.yaml);
      const YamlError error = error_of(row.yaml);
      CHECK(error.code == row.code);
      CHECK(error.line == row.line);
      CHECK_MESSAGE(error.cause.find(row.cause) != std::string::npos, error.cause);
    }
  }

  TEST_CASE("64 levels are read and one more is refused, through aliases too") {
    CHECK(json_of(repeated("[", 64) + repeated("]", 64)) == repeated("[", 64) + repeated("]", 64));
    CHECK(error_of(repeated("[", 65) + repeated("]", 65)).code == ErrorCode::kTooLarge);
    // yaml-cpp's own scanner may give up first.
    CHECK_FALSE(error_of(repeated("[", 100'000)).cause.empty());
    CHECK_FALSE(error_of(repeated("- ", 100'000)).cause.empty());
    CHECK_FALSE(error_of(repeated("{a: ", 100'000)).cause.empty());
    const std::string nested = repeated("[", 40) + repeated("]", 40);
    CHECK(
        error_of("a: &a " + nested + "\nb: " + repeated("[", 30) + "*a" + repeated("]", 30)).code ==
        ErrorCode::kTooLarge);
  }

  TEST_CASE("aliases that multiply are refused before they take memory") {
    std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 20; ++i) {
      const std::string before = "*a" + std::to_string(i - 1);
      bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
      for (int k = 0; k < 9; ++k) bomb += ", " + before;
      bomb += "]\n";
    }
    CHECK(error_of(bomb).code == ErrorCode::kTooLarge);
    // Few nodes, but each a copy of a megabyte.
    CHECK(error_of("a: &a " + repeated("x", 1 << 20) + "\nb: [" + repeated("*a, ", 1000) + "1]\n")
              .code == ErrorCode::kTooLarge);
    CHECK(json_of("a: &a [1, 2]\nb: *a\n") == R"({"a":[1,2],"b":[1,2]})");
  }

  TEST_CASE("a file above 3 MB is refused as a whole") {
    CHECK(error_of(repeated("# comment\n", kMaxFileBytes / 10 + 1)).code == ErrorCode::kTooLarge);
  }
}
