// Addresses, query text and metrics cannot be forged by their content.
#include <doctest/doctest.h>

#include <chrono>
#include <limits>
#include <string>

#include "osm/net/address.hpp"
#include "osm/net/http.hpp"
#include "osm/runtime/prometheus_registry.hpp"

using namespace osm;
using namespace osm::net;

namespace {

TEST_SUITE("net::Address") {
  TEST_CASE("addresses are read back as they are written") {
    for (const char* text : {"127.0.0.1:80", "localhost:0", "[::1]:65535", "unix:/run/x.sock"}) {
      const auto address = parse_address(text);
      REQUIRE_MESSAGE(address.ok(), text);
      CHECK(address->str() == text);
    }
    CHECK(parse_address("[::1]:80")->host == "::1");
  }

  TEST_CASE("an invalid address is refused with a remedy") {
    for (const char* text : {"", "localhost", ":80", "host:", "host:65536", "host:-1", "host:8x",
                             "::1:80", "[::1:80", "unix:"}) {
      CAPTURE(text);
      const auto address = parse_address(text);
      REQUIRE_FALSE(address.ok());
      CHECK(address.error().code == ErrorCode::kInvalidArgument);
    }
    CHECK(parse_address("::1:80").error().message.find("[::1]:9091") != std::string::npos);
    const auto long_path = parse_address("unix:/" + std::string(200, 'x'));
    CHECK(long_path.error().message.find("107 bytes") != std::string::npos);
  }
}

TEST_SUITE("net::query text") {
  TEST_CASE("any bytes survive encoding and decoding") {
    std::string all;
    for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
    CHECK(decode_query_text(encode_query_text(all)) == all);
    CHECK(encode_query_text("a/b c~") == "a%2Fb%20c~");
    CHECK(decode_query_text("%") == std::nullopt);
    CHECK(decode_query_text("%g0") == std::nullopt);
  }
}

TEST_SUITE("net::PrometheusRegistry") {
  TEST_CASE("counters and gauges are exposed with help, type and ordered, escaped labels") {
    constexpr Counter kX{"osm_x_total", "What \\ happened\nso far", {"a", "b"}};
    constexpr Gauge kY{"osm_y", "", {"type"}};
    PrometheusRegistry registry;
    registry.add(kX, {{"b", "2"}, {"a", "say \"hi\"\n\\"}}, 1);
    registry.add(kX, {{"a", "say \"hi\"\n\\"}, {"b", "2"}}, 2);
    registry.add(kX, {}, 0.5);
    registry.set(kY, {{"type", "CDS"}}, 7);
    registry.set(kY, {{"type", "CDS"}}, -3);
    CHECK(registry.expose() ==
          "# HELP osm_x_total What \\\\ happened\\nso far\n"
          "# TYPE osm_x_total counter\n"
          "osm_x_total 0.5\n"
          "osm_x_total{a=\"say \\\"hi\\\"\\n\\\\\",b=\"2\"} 3\n"
          "# TYPE osm_y gauge\n"
          "osm_y{type=\"CDS\"} -3\n");
  }

  TEST_CASE("histograms have cumulative buckets from 1 ms to 60 s, a sum and a count") {
    constexpr Histogram kT{"osm_t_seconds", "Seconds of each stage", {"stage"}};
    PrometheusRegistry registry;
    for (const double seconds : {0.0005, 0.001, 0.02, 59.0})
      registry.observe(kT, {{"stage", "write"}}, seconds);
    registry.observe(kT, {{"stage", "write"}}, std::chrono::minutes(1) + std::chrono::seconds(1));
    const std::string text = registry.expose();
    const auto has = [&](const std::string& line) {
      return text.find(line + '\n') != std::string::npos;
    };
    CHECK(has("# HELP osm_t_seconds Seconds of each stage"));
    CHECK(has("# TYPE osm_t_seconds histogram"));
    CHECK(has(R"(osm_t_seconds_bucket{stage="write",le="0.001"} 2)"));
    CHECK(has(R"(osm_t_seconds_bucket{stage="write",le="0.01"} 2)"));
    CHECK(has(R"(osm_t_seconds_bucket{stage="write",le="0.025"} 3)"));
    CHECK(has(R"(osm_t_seconds_bucket{stage="write",le="60"} 4)"));
    CHECK(has(R"(osm_t_seconds_bucket{stage="write",le="+Inf"} 5)"));
    CHECK(has(R"(osm_t_seconds_sum{stage="write"} 120.0215)"));
    CHECK(has(R"(osm_t_seconds_count{stage="write"} 5)"));
  }

  TEST_CASE("dropped metrics are counted by reason") {
    constexpr Counter kMany{"osm_many_total", "", {"id"}};
    constexpr Counter kOk{"osm_ok_total", "", {"a"}};
    PrometheusRegistry registry(2);
    for (int i = 0; i < 5; ++i) registry.add(kMany, {{"id", std::to_string(i)}}, 1);
    registry.set(Gauge{"osm_many_total", ""}, {}, 1);
    registry.add(kMany, {{"id", "0"}}, -1);
    registry.add(Counter{"osm-bad", ""}, {}, 1);
    registry.add(kOk, {{"le", "1"}}, 1);
    registry.add(kOk, {{"a", "1"}, {"a", "2"}}, 1);
    registry.observe(Histogram{"osm_t_seconds", ""}, {}, std::numeric_limits<double>::quiet_NaN());
    CHECK(registry.expose() ==
          "# TYPE osm_many_total counter\n"
          "osm_many_total{id=\"0\"} 1\n"
          "osm_many_total{id=\"1\"} 1\n"
          "# HELP osm_metrics_dropped_total Values that could not be kept, by reason\n"
          "# TYPE osm_metrics_dropped_total counter\n"
          "osm_metrics_dropped_total{reason=\"invalid_name\"} 3\n"
          "osm_metrics_dropped_total{reason=\"negative\"} 1\n"
          "osm_metrics_dropped_total{reason=\"not_a_number\"} 1\n"
          "osm_metrics_dropped_total{reason=\"other_kind\"} 1\n"
          "osm_metrics_dropped_total{reason=\"too_many_series\"} 3\n");
  }

  TEST_CASE("values are exposed as Prometheus writes them") {
    PrometheusRegistry registry;
    registry.set(Gauge{"osm_a", ""}, {}, std::numeric_limits<double>::infinity());
    registry.set(Gauge{"osm_b", ""}, {}, 1704067200.25);
    registry.set(Gauge{"osm_c", ""}, {}, 1e21);
    CHECK(registry.expose().find("osm_a +Inf\n") != std::string::npos);
    CHECK(registry.expose().find("osm_b 1704067200.25\n") != std::string::npos);
    CHECK(registry.expose().find("osm_c 1e+21\n") != std::string::npos);
  }
}

}  // namespace
