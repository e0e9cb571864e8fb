// The interception script applies, changes and removes its rules in a network namespace.
#include "osm/inject/interception.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "inject/golden.hpp"
#include "inject/run.hpp"
#include "lib/run.hpp"

using namespace osm;
using namespace osm::inject;

namespace {

std::string script(const InterceptionOptions& options) {
  auto text = interception_script(options);
  REQUIRE_MESSAGE(text.ok(), text.error().message);
  return *text;
}

std::vector<std::string> lines_with(const std::string& text, const std::string& part) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(part) != std::string::npos) found.push_back(line);
  }
  return found;
}

std::string failure(const InterceptionOptions& options) {
  const auto text = interception_script(options);
  REQUIRE_FALSE(text.ok());
  CHECK(text.error().code == ErrorCode::kInvalidArgument);
  return text.error().message;
}

// Rules of every table and both families, without counters and comments.
constexpr const char* kRules =
    "{ for t in nat filter; do iptables -t $t -S; done; ip6tables -t filter -S; } | sort";

// Runs `commands` as root of a network namespace of its own; $INTERCEPT is the script.
std::string in_namespace(const InterceptionOptions& options, const std::string& commands) {
  const testing::TemporaryDirectory directory;
  directory.write("intercept.sh", script(options));
  const auto ran = testing::run("unshare --net sh -ec 'INTERCEPT=\"sh " + directory.str() +
                                "/intercept.sh\"; " + commands + "'");
  REQUIRE_MESSAGE(ran.status == 0, ran.output,
                  "\n(this test needs root, unshare and iptables: tools/setup installs them)");
  return ran.output;
}

// `resolv_conf` is /etc/resolv.conf for the script.
std::string with_resolv_conf(const InterceptionOptions& options, const std::string& resolv_conf,
                             const std::string& commands) {
  const testing::TemporaryDirectory directory;
  directory.write("resolv.conf", resolv_conf);
  directory.write("run.sh", "mount --bind " + directory.str() + "/resolv.conf /etc/resolv.conf; " +
                                commands + "\n");
  return in_namespace(options,
                      "unshare --mount sh -e " + directory.str() + "/run.sh \"$INTERCEPT\"");
}

InterceptionOptions everything() {
  InterceptionOptions options;
  for (std::uint16_t port = 9000; port < 9040; ++port) {
    options.inbound_excluded.push_back(Port{port});
    options.outbound_excluded.push_back(Port{port});
  }
  options.inbound_excluded_networks = {"172.16.0.0/12"};
  options.outbound_excluded_networks = {"10.1.0.0/16", "169.254.169.254"};
  options.outbound_included_networks = {"10.0.0.0/8", "192.168.0.0/16"};
  options.mesh_networks_v6 = {"fd00::/8"};
  options.controller = {"10.0.0.1", Port{15128}};
  return options;
}

}  // namespace

TEST_SUITE("inject::interception_script") {
  TEST_CASE("the script is the text that is agreed on") {
    testing::check_golden("intercept.sh", script({}));
    testing::check_golden("intercept_everything.sh", script(everything()));
  }

  TEST_CASE("SSH reaches the machine directly unless it is asked for") {
    CHECK(lines_with(script({}), "--dports 22,15010,").size() == 2);
    CHECK(lines_with(script({.inbound_excluded = {}}), "--dports 15010,").size() == 2);
  }

  TEST_CASE("any number of excluded ports fits the rules, 15 in each, every one once") {
    auto random = osm::testing::seeded();
    for (int round = 0; round < 200; ++round) {
      InterceptionOptions options;
      options.inbound_excluded.clear();
      const std::size_t count = random() % 70;
      for (std::size_t i = 0; i < count; ++i) {
        options.outbound_excluded.push_back(Port{static_cast<std::uint16_t>(1 + random() % 15000)});
      }
      const std::set<Port> wanted(options.outbound_excluded.begin(),
                                  options.outbound_excluded.end());
      const auto rules = lines_with(script(options), "-A OSM_PROXY_OUTBOUND -p tcp -m multiport");
      CHECK(rules.size() == (wanted.size() + 14) / 15);
      std::multiset<Port> found;
      for (const std::string& rule : rules) {
        const auto begin = rule.find("--dports ") + 9;
        std::istringstream list(rule.substr(begin, rule.find(" -j") - begin));
        std::size_t in_rule = 0;
        for (std::string port; std::getline(list, port, ','); ++in_rule) {
          found.insert(Port{static_cast<std::uint16_t>(std::stoi(port))});
        }
        CHECK(in_rule <= 15);
      }
      CHECK(std::equal(found.begin(), found.end(), wanted.begin(), wanted.end()));
    }
  }

  TEST_CASE("the order of the options and repetitions do not change the script") {
    InterceptionOptions a;
    a.outbound_excluded = {Port{80}, Port{443}, Port{80}};
    a.outbound_excluded_networks = {"10.2.0.0/16", "10.1.0.0/16"};
    InterceptionOptions b;
    b.outbound_excluded = {Port{443}, Port{80}};
    b.outbound_excluded_networks = {"10.1.0.0/16", "10.2.0.0/16", "10.1.0.0/16"};
    CHECK(script(a) == script(b));
  }

  TEST_CASE("an exclusion comes before any inclusion") {
    const std::string text = script(everything());
    CHECK(text.find("-d 10.1.0.0/16 -p tcp -j RETURN") <
          text.find("-d 10.0.0.0/8 -p tcp -j OSM_PROXY_OUT_REDIRECT"));
    CHECK(lines_with(text, "-A OSM_PROXY_OUTBOUND -p tcp -j OSM_PROXY_OUT_REDIRECT").empty());
  }

  TEST_CASE("an invalid port, network or user is refused by name and value") {
    CHECK(failure({.proxy_uid = 0}).find("proxy uid: 0") == 0);
    CHECK(failure({.inbound_excluded = {Port{0}}}).find("inbound port exclusion: 0") == 0);
    CHECK(failure({.outbound_excluded = {Port{0}}}).find("outbound port exclusion: 0") == 0);
    using namespace std::string_literals;
    for (const std::string& network :
         {""s, "10.0.0.0/33"s, "10.0.0.0/"s, "10.0.0/8"s, "10.0.0.0/8x"s, "fd00::/8"s,
          "10.0.0.0/-1"s, "$(reboot)"s, "10.0.0.1\n"s, "10.0.0.1\0$(reboot)"s}) {
      CAPTURE(network);
      CHECK(failure({.inbound_excluded_networks = {network}}).find("inbound network exclusion") ==
            0);
      CHECK(failure({.outbound_excluded_networks = {network}}).find("outbound network exclusion") ==
            0);
      CHECK(failure({.outbound_included_networks = {network}}).find("outbound network inclusion") ==
            0);
    }
    CHECK(failure({.mesh_networks_v6 = {"10.0.0.0/8"}}).find("IPv6 network of the mesh") == 0);
    CHECK(failure({.controller = {"osm-controller", Port{15128}}}).find("controller") == 0);
  }
}

TEST_SUITE("intercept.sh in a real network namespace") {
  TEST_CASE("applying twice equals applying once, and --remove restores the tables") {
    const InterceptionOptions options = everything();
    const std::string output = in_namespace(
        options,
        std::string("rules() { ") + kRules +
            "; }; "
            "iptables -t nat -A PREROUTING -p tcp --dport 7 -j REDIRECT --to-ports 8; "
            "iptables -A INPUT -p tcp --dport 9 -j DROP; ip6tables -A OUTPUT -p tcp -j ACCEPT; "
            "before=$(rules); $INTERCEPT; once=$(rules); $INTERCEPT; twice=$(rules); "
            "$INTERCEPT --remove; after=$(rules); $INTERCEPT --remove; again=$(rules); "
            "[ \"$once\" = \"$twice\" ] || echo applying twice differs; "
            "[ \"$before\" != \"$once\" ] || echo nothing applied; "
            "[ \"$before\" = \"$after\" ] || echo remove leaves something; "
            "[ \"$before\" = \"$again\" ] || echo removing twice differs");
    CHECK(output == "");
  }

  TEST_CASE("a repeated run takes up changed options") {
    const testing::TemporaryDirectory directory;
    directory.write("first.sh", script({.inbound_excluded = {Port{22}, Port{9100}}}));
    const std::string output =
        in_namespace({}, "sh " + directory.str() +
                             "/first.sh; iptables -t nat -S | grep -c 9100; $INTERCEPT; "
                             "! iptables -t nat -S | grep 9100");
    CHECK(output == "1\n");
  }

  TEST_CASE("questions to the machine's name servers go to the proxy, but not its own") {
    const InterceptionOptions options{.dns = true};
    const std::string shown =
        "iptables -t nat -S OUTPUT | grep DNS; iptables -t nat -S OSM_PROXY_DNS";
    const std::string jump = "-A OUTPUT -p udp -m udp --dport 53 -j OSM_PROXY_DNS\n";
    const std::string own =
        "-N OSM_PROXY_DNS\n-A OSM_PROXY_DNS -m owner --uid-owner 1500 -j RETURN\n";
    const auto to_proxy = [](const std::string& server) {
      return "-A OSM_PROXY_DNS -d " + server + "/32 -p udp -j REDIRECT --to-ports 15053\n";
    };
    CHECK(with_resolv_conf(
              options, "search x\nnameserver 10.0.0.2\nnameserver fd00::1\nnameserver 10.0.0.3",
              "$1; $1; " + shown) == jump + own + to_proxy("10.0.0.2") + to_proxy("10.0.0.3"));
    // The resolver on loopback may ask the other one.
    CHECK(with_resolv_conf(options, "nameserver 10.0.0.2\nnameserver 127.0.0.53\n",
                           "$1; " + shown) == jump + own + to_proxy("127.0.0.53"));
    const std::string without =
        with_resolv_conf(options, "nameserver fd00::1\n",
                         "$1; iptables -t nat -S OUTPUT | grep -c OSM_PROXY_OUTBOUND");
    CHECK(without.find("/etc/resolv.conf names no IPv4 name server") != std::string::npos);
    CHECK(without.ends_with("\n1\n"));  // TCP is redirected
  }

  TEST_CASE("DNS over TCP goes past the proxy to the machine's name servers, and nowhere else") {
    const std::string conf =
        "nameserver 10.0.0.2\nnameserver fd00::1\nnameserver 127.0.0.53\nnameserver 1.2.3\n"
        "nameserver 10.0.0.999\nnameserver 10..0.1\nsearch x\nnameserver 10.0.0.3";
    const std::string shown = "iptables -t nat -S OSM_PROXY_OUTBOUND | grep -w 53 | cut -d' ' -f4-";
    const auto spared = [](const char* server) {
      return std::string(server) + "/32 -p tcp -m tcp --dport 53 -j RETURN\n";
    };
    for (const bool dns : {false, true}) {
      InterceptionOptions options;
      options.dns = dns;
      CHECK(with_resolv_conf(options, conf, "$1; $1; " + shown) ==
            spared("10.0.0.2") + spared("127.0.0.53") + spared("10.0.0.3"));
      CHECK(with_resolv_conf(options, conf, "NAME_SERVERS='10.0.0.7 x' $1 && " + shown) ==
            spared("10.0.0.7"));
    }
    CHECK(with_resolv_conf({}, "", "$1; " + shown + " || :") == "");
  }

  TEST_CASE("--remove and a script without names give the name servers back") {
    const std::string rules = std::string("rules() { ") + kRules + "; }; ";
    const testing::TemporaryDirectory directory;
    directory.write("without.sh", script({}));
    const std::string without = "sh " + directory.str() + "/without.sh; ";
    CHECK(with_resolv_conf({.dns = true}, "nameserver 10.0.0.2\n",
                           rules +
                               "before=$(rules); $1; $1 --remove; after=$(rules); "
                               "[ \"$before\" = \"$after\" ] || echo remove leaves something; " +
                               without + "plain=$(rules); $1; " + without +
                               "again=$(rules); "
                               "[ \"$plain\" = \"$again\" ] || echo names are still redirected") ==
          "");
  }

  TEST_CASE("a VirtualMachine asks for names by an annotation, and another value is refused") {
    const auto asked = [](const std::string& value) {
      Object machine;
      machine.key = {kinds::kVirtualMachine, "shop", "web-1"};
      machine.document = std::make_shared<const boost::json::value>(boost::json::parse(
          R"({"metadata": {"annotations": {"openservicemesh.io/dns": ")" + value + R"("}}})"));
      return machine_interception({}, machine);
    };
    REQUIRE(asked("enabled").ok());
    CHECK(asked("enabled")->dns);
    const auto refused = asked("yes");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kInvalidField);
    CHECK(refused.error().message.find("openservicemesh.io/dns") != std::string::npos);
    CHECK(refused.error().message.find("must be enabled") != std::string::npos);
    Object silent;
    silent.document = std::make_shared<const boost::json::value>(boost::json::object());
    CHECK_FALSE(machine_interception({}, silent)->dns);
  }

  TEST_CASE("interception goes before rules that were there") {
    const std::string output =
        in_namespace({},
                     "iptables -t nat -A PREROUTING -p tcp -j ACCEPT; $INTERCEPT; "
                     "iptables -t nat -S PREROUTING | sed -n 2p");
    CHECK(output == "-A PREROUTING -p tcp -j OSM_PROXY_INBOUND\n");
  }

  TEST_CASE("an unknown argument changes nothing and says how it is used") {
    const std::string output =
        in_namespace({}, std::string("before=$(") + kRules +
                             "); ! $INTERCEPT --delete; [ \"$before\" = \"$(" + kRules + ")\" ]");
    CHECK(output == "intercept.sh: unknown argument '--delete'; usage: intercept.sh [--remove]\n");
  }
}
