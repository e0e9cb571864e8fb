// Probes, hooks and the port for Prometheus work through a real Envoy in a pod's network
// namespace; floods of that port are refused.
//
// An injected pod in a network namespace of its own: the init container's command with
// /bin/sh and iptables-restore, and probes through a real Envoy.
#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <string>

#include "inject/pod_cases.hpp"
#include "inject/run.hpp"
#include "lib/places.hpp"

using namespace osm;
using namespace osm::inject;

namespace {

using inject_test::golden_pod;
using inject_test::PodCase;

// The script of the init container that applies the rules itself.
std::string init_script(PodCase pod) {
  pod.cni = false;
  const PatchedPod patched = pod.patched();
  for (const auto& container : patched.pod.at("spec").at("initContainers").as_array())
    if (container.at("name") == "osm-init")
      return std::string(container.at("args").at(1).as_string());
  FAIL("no osm-init");
  return {};
}

// Runs `commands` as root of a network namespace of its own, where $INIT runs the pod's init
// container as kubelet does: with its arguments, and nothing in PATH but what it may need.
std::string in_pod(const testing::TemporaryDirectory& directory, const PodCase& pod,
                   const std::string& commands) {
  directory.write("init.sh", init_script(pod));
  testing::run("mkdir '" + directory.str() +
               "/bin' && for tool in iptables-restore ip6tables-restore; do ln -s $(command -v "
               "$tool) '" +
               directory.str() + "/bin/'; done");
  directory.write("commands.sh", "set -e\nip link set lo up\nINIT() { env -i PATH='" +
                                     directory.str() +
                                     "/bin' POD_IP=10.9.8.7 POD_IPS=10.9.8.7 /bin/sh -c \"$(cat '" +
                                     directory.str() + "/init.sh')\"; }\n" + commands);
  const auto ran = testing::run("unshare --net sh '" + directory.str() + "/commands.sh' 2>&1");
  REQUIRE_MESSAGE(ran.status == 0, ran.output,
                  "\n(this test needs root, unshare and iptables: tools/setup installs them)");
  return ran.output;
}

// The sidecar's bootstrap, without waiting for a control plane.
void write_bootstrap(const testing::TemporaryDirectory& directory, const PodCase& pod) {
  for (BootstrapFile file : inject_test::bootstrap_files(pod.patched())) {
    for (const auto& [from, to] :
         {std::pair<std::string, std::string>{"/etc/envoy", directory.str()},
          std::pair<std::string, std::string>{"initial_fetch_timeout: 0s",
                                              "initial_fetch_timeout: 0.1s"},
          std::pair<std::string, std::string>{"interval: 10s", "interval: 1s"}}) {
      for (std::size_t at = 0; (at = file.content.find(from, at)) != std::string::npos;
           at += to.size())
        file.content.replace(at, from.size(), to);
    }
    directory.write(file.name, file.content);
  }
}

// Commands: a certificate for the files that name one, and Envoy as the user that it is in a pod.
std::string start_envoy(const std::string& directory) {
  return "cd '" + directory +
         "'\n"
         "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=t "
         "-keyout sds_key.pem -out sds_cert.pem 2>/dev/null && cp sds_cert.pem cacert.pem\n"
         "chmod 755 . && chmod 644 *.pem\n"
         "setpriv --reuid=1500 --regid=1500 --clear-groups " +
         testing::envoy() +
         " -c bootstrap.yaml --log-level error --concurrency 1 --disable-hot-restart >envoy.log "
         "2>&1 & envoy=$!\n";
}

// expect CODE PORT/PATH: until it answers that, for ten seconds.
constexpr const char* kExpect =
    "ask() { curl -s -m 5 -o answer -D headers -w '%{http_code}' http://127.0.0.1:$1; }\n"
    "expect() { for i in $(seq 100); do got=$(ask $2) || got=none; [ $got = $1 ] && return; "
    "sleep 0.1; done; echo \"$2: $got instead of $1\"; }\n";

constexpr const char* kRules =
    "rules() { { for t in nat filter; do iptables -t $t -S; done; ip6tables -t filter -S; }; }\n";

}  // namespace

TEST_SUITE("osm-init in a real network namespace") {
  TEST_CASE("osm-init needs /bin/sh and iptables-restore, and is idempotent") {
    for (const std::string& name : inject_test::golden_pods()) {
      CAPTURE(name);
      const testing::TemporaryDirectory directory;
      CHECK(in_pod(directory, golden_pod(name),
                   std::string(kRules) +
                       "before=$(rules)\nINIT\nonce=$(rules)\nINIT\ntwice=$(rules)\n"
                       "[ \"$once\" = \"$twice\" ] || echo applying twice differs\n"
                       "[ \"$before\" != \"$once\" ] || echo nothing applied\n") == "");
    }
  }

  TEST_CASE("exclusions become rules that the kernel takes") {
    const testing::TemporaryDirectory directory;
    const std::string rules = in_pod(directory, golden_pod("exclusions"),
                                     "INIT\niptables -t nat -S OSM_PROXY_OUTBOUND\n");
    CHECK(rules.find("-p tcp -m multiport --dports 6379,6380,7070 -j RETURN") != std::string::npos);
    CHECK(rules.find("-o net1 -j RETURN") != std::string::npos);
    CHECK(rules.find("--to-destination 10.9.8.7") != std::string::npos);
  }

  TEST_CASE("with localProxyMode PodIP the proxy's dials to loopback reach the pod's address") {
    const testing::TemporaryDirectory directory;
    directory.write("serve.py",
                    "import http.server, sys, threading\n"
                    "class Say(http.server.BaseHTTPRequestHandler):\n"
                    "    def do_GET(self):\n"
                    "        self.send_response(200); self.end_headers()\n"
                    "        self.wfile.write(self.server.server_address[0].encode())\n"
                    "    def log_message(self, *args): pass\n"
                    "for address in (('10.9.8.7', 8080), ('127.0.0.1', 15000)):\n"
                    "    server = http.server.ThreadingHTTPServer(address, Say)\n"
                    "    threading.Thread(target=server.serve_forever).start()\n"
                    "open(sys.argv[1], 'w').close()\n");
    const std::string output = in_pod(
        directory, golden_pod("exclusions"),
        "ip address add 10.9.8.7/32 dev lo\nINIT\ncd '" + directory.str() +
            "'\npython3 serve.py ready & server=$!\ntrap 'kill $server' EXIT\n"
            "for i in $(seq 200); do [ -e ready ] && break; sleep 0.05; done\n"
            "proxy() { setpriv --reuid=1500 --regid=1500 --clear-groups curl -sS -m 5 $1; echo; }\n"
            "proxy http://127.0.0.1:8080/\nproxy http://127.0.0.1:15000/\n");
    CHECK(output == "10.9.8.7\n127.0.0.1\n");
  }
}

TEST_SUITE("metrics of a real Envoy") {
  TEST_CASE("port 15010 answers GET of Prometheus' page, and nothing else of the admin interface") {
    const testing::TemporaryDirectory directory;
    PodCase pod = golden_pod("plain");
    pod.config.injection.sidecar.local_proxy_mode = LocalProxyMode::kPodIp;
    write_bootstrap(directory, pod);
    const std::string output = in_pod(
        directory, pod,
        "ip address add 10.9.8.7/32 dev lo\nINIT\n" + start_envoy(directory.str()) +
            "trap 'kill $envoy' EXIT\n" + kExpect +
            "expect 200 15010/stats/prometheus\n"
            "ask 15010/stats/prometheus?usedonly >/dev/null\n"
            "grep -q '^envoy_cluster_membership_total{.*envoy-metrics-cluster' answer ||"
            " echo no statistics\n"
            // From outside of the pod; iptables lets the port through.
            "curl -s -m 5 http://10.9.8.7:15010/stats/prometheus | grep -q ^envoy_ || echo closed\n"
            "for path in / /stats /stats?format=prometheus /config_dump /clusters /ready "
            "/stats/prometheus/ /stats/prometheus/../../quitquitquit "
            "/stats/prometheus%2f..%2fcerts "
            "//stats/prometheus '/stats/prometheus;x' /logging; do\n"
            "  for i in $(seq 50); do\n"  // the rate limit may have to wait
            "    got=$(curl -s --path-as-is -m 5 -o answer -w '%{http_code}'"
            " http://127.0.0.1:15010$path)\n"
            "    [ $got = 429 ] || break; sleep 0.1\n"
            "  done\n"
            "  [ $got = 404 ] || echo \"$path: $got\"\n"
            "done\n"
            "for method in POST PUT DELETE; do\n"
            "  for i in $(seq 50); do\n"
            "    got=$(curl -s -X $method -m 5 -o answer -w '%{http_code}'"
            " http://127.0.0.1:15010/stats/prometheus)\n"
            "    [ $got = 429 ] || break; sleep 0.1\n"
            "  done\n"
            "  [ $got = 404 ] || echo \"$method: $got\"\n"
            "done\n");
    CHECK(output == "");
  }

  TEST_CASE("a flood of scrapes and of connections is refused, and ends without a trace") {
    const testing::TemporaryDirectory directory;
    const PodCase pod = golden_pod("plain");
    write_bootstrap(directory, pod);
    directory.write(
        "flood.py",
        "import http.client, socket\n"
        "def ask(connection=None):\n"
        "    c = http.client.HTTPConnection('127.0.0.1', 15010, timeout=5)\n"
        "    c.request('GET', '/stats/prometheus')\n"
        "    answer = c.getresponse(); answer.read(); c.close()\n"
        "    return answer.status\n"
        "answers = {ask() for _ in range(60)}\n"
        "if 429 not in answers: print('no limit of requests:', answers)\n"
        "idle = [socket.create_connection(('127.0.0.1', 15010), 5) for _ in range(64)]\n"
        "closed = 0\n"
        "for s in idle:\n"
        "    s.settimeout(0.05)\n"
        "    try: closed += s.recv(1) == b''\n"
        "    except TimeoutError: pass\n"
        "    except ConnectionError: closed += 1\n"
        "if closed < 32: print('no limit of connections:', closed)\n");
    const std::string output =
        in_pod(directory, pod,
               "INIT\n" + start_envoy(directory.str()) + "trap 'kill $envoy' EXIT\n" + kExpect +
                   "expect 200 15010/stats/prometheus\n"
                   "python3 flood.py\n"
                   "expect 200 15010/stats/prometheus\n"
                   "expect 200 15903/osm-startup-probe/envoy\n");
    CHECK(output == "");
  }
}

TEST_SUITE("probes through a real Envoy") {
  TEST_CASE("each probe succeeds while its target is there, and fails otherwise") {
    const testing::TemporaryDirectory directory;
    const PodCase pod = golden_pod("probes");
    write_bootstrap(directory, pod);
    directory.write(
        "app.py",
        "import http.server, ssl, socket, sys, threading\n"
        "class App(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        expected = {'/live?deep=1': 200, '/ready%20%C3%A9tat': 302, '/start': 204}\n"
        "        self.send_response(expected.get(self.path, 500))\n"
        "        self.send_header('location', '/elsewhere'); self.end_headers()\n"
        "    def log_message(self, *args): pass\n"
        "plain = http.server.ThreadingHTTPServer(('127.0.0.1', 8080), App)\n"
        "secure = http.server.ThreadingHTTPServer(('127.0.0.1', 8443), App)\n"
        "context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n"
        "context.load_cert_chain('sds_cert.pem', 'sds_key.pem')\n"
        "secure.socket = context.wrap_socket(secure.socket, server_side=True)\n"
        "tcp = socket.create_server(('127.0.0.1', 7000))\n"
        "for server in (plain, secure): threading.Thread(target=server.serve_forever).start()\n"
        "while True: tcp.accept()[0].close()\n");
    const std::string output = in_pod(
        directory, pod,
        "INIT\n" + start_envoy(directory.str()) + "trap 'kill $envoy $app' EXIT\n" + kExpect +
            "check() {\n"
            "  expect $1 15903/osm-startup-probe/files\n"
            "  expect $2 15901/osm-liveness-probe/web?deep=1\n"
            "  expect $3 15902/osm-readiness-probe/web\n"
            "  expect $4 15903/osm-startup-probe/web\n"
            "}\n"
            "expect 200 15903/osm-startup-probe/envoy\n"
            "expect 200 15902/osm-readiness-probe/envoy\n"
            "expect 404 15902/ready\n"
            "expect 404 15902/stats\n"
            "check 503 503 503 503\n"
            "expect 503 15901/osm-liveness-probe/rpc\n"
            "python3 app.py & app=$!\n"
            "check 200 200 302 204\n"
            "grep -i location headers && echo a redirect would lead nowhere\n"
            "{ kill $app; wait $app; } 2>/dev/null || :\napp=\n"
            "check 503 503 503 503\n");
    CHECK(output == "");
  }

  TEST_CASE("hooks reach the container, once it listens, by their key alone") {
    const testing::TemporaryDirectory directory;
    const PodCase pod = golden_pod("hooks");
    write_bootstrap(directory, pod);
    directory.write(
        "app.py",
        "import http.server, ssl, threading\n"
        "class App(http.server.BaseHTTPRequestHandler):\n"
        "    def do_GET(self):\n"
        "        print(self.server.server_port, self.path, flush=True)\n"
        "        self.send_response(204); self.end_headers()\n"
        "    def log_message(self, *args): pass\n"
        "servers = [http.server.ThreadingHTTPServer(('127.0.0.1', port), App)\n"
        "           for port in (8080, 8443)]\n"
        "context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n"
        "context.load_cert_chain('sds_cert.pem', 'sds_key.pem')\n"
        "servers[1].socket = context.wrap_socket(servers[1].socket, server_side=True)\n"
        "for server in servers: threading.Thread(target=server.serve_forever).start()\n");
    const std::string output = in_pod(
        directory, pod,
        "INIT\n" + start_envoy(directory.str()) + "trap 'kill $envoy $app' EXIT\n" + kExpect +
            "expect 200 15903/osm-startup-probe/envoy\n"
            "expect 404 15904/osm-pre-stop-hook/web\n"
            "expect 404 15904/osm-pre-stop-hook/web/another-key\n"
            "expect 503 15904/osm-pre-stop-hook/web/the-hook-key\n"
            // As kubelet sends it: once, without a limit, while the application starts.
            "curl -s -o /dev/null -w '%{http_code}\\n' "
            "http://127.0.0.1:15904/osm-post-start-hook/web/the-hook-key?up=1 >started & asked=$!\n"
            "for i in $(seq 100); do curl -s -m 5 http://127.0.0.1:15000/stats | grep -q "
            "'cluster.web_post-start_cluster.upstream_rq_retry: [1-9]' && break; sleep 0.1; done\n"
            "python3 app.py >heard & app=$!\n"
            "wait $asked; cat started\n"
            "expect 204 15904/osm-pre-stop-hook/web/the-hook-key\n"
            "cat heard\n");
    CHECK(output == "204\n8080 /warm?up=1\n8443 /drain\n");
  }

  TEST_CASE("a sidecar that ends with its pod holds its own end up, and serves until then") {
    const testing::TemporaryDirectory directory;
    PodCase pod = golden_pod("plain");
    pod.native = false;
    pod.pod.at("spec").as_object()["terminationGracePeriodSeconds"] = 24;
    write_bootstrap(directory, pod);
    // Longer than Envoy gives requests by default on these ports.
    const std::string output =
        in_pod(directory, pod,
               "INIT\n" + start_envoy(directory.str()) + "trap 'kill $envoy' EXIT\n" + kExpect +
                   "expect 200 15903/osm-startup-probe/envoy\n"
                   "curl -s -o /dev/null -w '%{http_code} %{time_total}\\n' "
                   "http://127.0.0.1:15904/osm-pre-stop-hook/envoy/the-hook-key >held & asked=$!\n"
                   "expect 200 15902/osm-readiness-probe/envoy\n"
                   "wait $asked; cat held\n");
    CAPTURE(output);
    REQUIRE(output.starts_with("200 "));
    // Half of the grace period. Envoy's timer starts within curl's and may end a little before it.
    CHECK(std::stod(output.substr(4)) >= 11.5);
  }
}
