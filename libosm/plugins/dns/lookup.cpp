#include "dns/lookup.hpp"

#include <ares.h>
#include <arpa/nameser.h>
#include <poll.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/numbers.hpp"
#include "model/host.hpp"
#include "model/ip_address.hpp"

namespace osm::inline v1::dns {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMaxServers = 8;  // c-ares tells 16 sockets: two of each server
constexpr milliseconds kGlance(100);    // until the end of the resolver is noticed
// Queries of a round that wait for an answer at one time: an SRV record may name a thousand hosts.
constexpr std::size_t kMaxInFlight = 64;

struct FreeChannel {
  void operator()(ares_channel channel) const { ares_destroy(channel); }
};
using Channel = std::unique_ptr<std::remove_pointer_t<ares_channel>, FreeChannel>;

// "192.0.2.53", "192.0.2.53:53", "2001:db8::53" or "[2001:db8::53]:53", as c-ares reads them. It
// passes over others. nullopt: the text is none.
std::optional<std::string> server_of(std::string_view text) {
  if (model::is_ipv6(text)) return std::string(text);
  if (const auto end = text.find(']'); text.starts_with('[') && end != std::string_view::npos) {
    const std::string_view rest = text.substr(end + 1);
    const bool port = rest.empty() || (rest.starts_with(':') && port_of(rest.substr(1)));
    return port && model::is_ipv6(text.substr(1, end - 1)) ? std::optional(std::string(text))
                                                           : std::nullopt;
  }
  const auto host = model::host_of(text);
  if (!host || !model::is_ipv4(host->name)) return std::nullopt;
  return host->name + (host->port ? ':' + std::to_string(number(*host->port)) : "");
}

// Precondition: check_servers().
std::string joined(const std::vector<std::string>& servers) {
  std::string out;
  for (const std::string& server : servers)
    out.append(out.empty() ? "" : ",").append(server_of(server).value_or(server));
  return out;
}

// Null: the system's configuration cannot be used.
Channel open_channel(const std::vector<std::string>& servers, milliseconds timeout, int more) {
  ares_options options{};
  options.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | more;
  options.timeout = static_cast<int>(timeout.count());
  options.tries = 2;
  ares_channel opened = nullptr;
  if (ares_init_options(&opened, &options, ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES) !=
      ARES_SUCCESS)
    return nullptr;
  Channel channel(opened);
  if (!servers.empty() &&
      ares_set_servers_ports_csv(channel.get(), joined(servers).c_str()) != ARES_SUCCESS)
    return nullptr;
  return channel;
}

Outcome query_outcome(int status) {
  switch (status) {
    case ARES_SUCCESS:
      return Outcome::kAnswered;
    case ARES_ENODATA:
      return Outcome::kNoData;
    case ARES_ENOTFOUND:
      return Outcome::kNotFound;
    case ARES_ESERVFAIL:
    case ARES_EREFUSED:
    case ARES_ENOTIMP:
    case ARES_EFORMERR:
    case ARES_EBADRESP:
      return Outcome::kRefused;
    default:
      return Outcome::kSilent;
  }
}

int type_number(RecordType type) {
  switch (type) {
    case RecordType::kA:
      return ns_t_a;
    case RecordType::kAaaa:
      return ns_t_aaaa;
    case RecordType::kSrv:
      break;
  }
  return ns_t_srv;
}

struct Pending {
  const Question* question;
  Answer* answer;
  std::size_t* in_flight;
};

void on_answer(void* context, int status, int /*timeouts*/, unsigned char* message, int length) {
  const auto& pending = *static_cast<Pending*>(context);
  --*pending.in_flight;
  pending.answer->outcome = query_outcome(status);
  if (status == ARES_SUCCESS)
    *pending.answer =
        read_answer(pending.question->type, {message, static_cast<std::size_t>(length)});
}

// Waits for the sockets, and lets c-ares read and write them.
void process(ares_channel channel, milliseconds longest) {
  std::array<ares_socket_t, ARES_GETSOCK_MAXNUM> sockets{};
  const auto bits = static_cast<unsigned>(ares_getsock(channel, sockets.data(), sockets.size()));
  std::vector<pollfd> polled;
  for (unsigned i = 0; i < sockets.size(); ++i) {
    const short events = static_cast<short>((ARES_GETSOCK_READABLE(bits, i) ? POLLIN : 0) |
                                            (ARES_GETSOCK_WRITABLE(bits, i) ? POLLOUT : 0));
    if (events != 0) polled.push_back({sockets[i], events, 0});
  }
  timeval most{0, static_cast<suseconds_t>(longest.count() * 1000)};
  timeval own{};
  const timeval* wait = ares_timeout(channel, &most, &own);
  const int ms = static_cast<int>(wait->tv_sec * 1000 + wait->tv_usec / 1000 + 1);
  ::poll(polled.data(), polled.size(), ms);
  ares_process_fd(channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);  // timeouts
  for (const pollfd& each : polled)
    if (each.revents != 0)
      ares_process_fd(
          channel, (each.revents & (POLLIN | POLLERR | POLLHUP)) != 0 ? each.fd : ARES_SOCKET_BAD,
          (each.revents & POLLOUT) != 0 ? each.fd : ARES_SOCKET_BAD);
}

using Deadline = std::chrono::steady_clock::time_point;

// `flags`: more flags of c-ares.
Answers ask_once(const LookupOptions& options, const std::set<Question>& questions, int flags,
                 Deadline end, const std::atomic<bool>& ended) {
  Answers answers;
  for (const Question& question : questions) answers.emplace(question, Answer());
  // A new one for each round, since the system's configuration may have changed.
  const Channel channel = open_channel(options.servers, options.timeout, flags);
  if (!channel) return answers;
  std::size_t in_flight = 0;
  std::vector<Pending> pending;
  pending.reserve(answers.size());
  for (auto& [question, answer] : answers) pending.push_back({&question, &answer, &in_flight});
  auto next = pending.begin();
  while (!ended && std::chrono::steady_clock::now() < end) {
    for (; next != pending.end() && in_flight < kMaxInFlight; ++next) {
      ++in_flight;
      ares_query(channel.get(), next->question->name.c_str(), ns_c_in,
                 type_number(next->question->type), on_answer, &*next);
    }
    if (in_flight == 0) break;
    process(channel.get(), kGlance);
  }
  ares_cancel(channel.get());
  return answers;
}

// c-ares asks the next server after an error, but in the end tells errors of all as silence. So it
// is told to take the first error as an answer, and only names with errors are asked again.
Answers ask_all(const LookupOptions& options, const std::set<Question>& questions,
                const std::atomic<bool>& ended) {
  const auto end = std::chrono::steady_clock::now() + options.deadline;
  Answers answers = ask_once(options, questions, ARES_FLAG_NOCHECKRESP, end, ended);
  std::set<Question> refused;
  for (const auto& [question, answer] : answers)
    if (answer.outcome == Outcome::kRefused) refused.insert(question);
  if (refused.empty()) return answers;
  for (auto& [question, answer] : ask_once(options, refused, 0, end, ended))
    if (answer.outcome != Outcome::kSilent) answers[question] = std::move(answer);
  return answers;
}

std::string instance_name(const std::string& address, std::uint16_t port) {
  std::string out = address;
  for (char& c : out)
    if (c == '.' || c == ':') c = '-';
  return port == 0 ? out : out + '-' + std::to_string(port);
}

// The hosts of the first priority.
std::vector<const Record*> first_choice(const Answer& services) {
  std::uint16_t best = UINT16_MAX;
  for (const Record& record : services.records) best = std::min(best, record.priority);
  std::vector<const Record*> out;
  for (const Record& record : services.records)
    if (record.priority == best) out.push_back(&record);
  return out;
}

Found join(const Answer& services, const Answers& hosts) {
  Found out{services.outcome, {}, services.ttl};
  if (services.outcome != Outcome::kAnswered) return out;
  const auto chosen = first_choice(services);
  const bool weighted =
      std::any_of(chosen.begin(), chosen.end(), [](const Record* r) { return r->weight != 0; });
  for (const Record* record : chosen) {
    const Answer& host = hosts.at({RecordType::kA, record->target});
    // With some hosts unknown the set would look smaller than it is.
    if (host.outcome != Outcome::kAnswered && host.outcome != Outcome::kNotFound)
      return {host.outcome == Outcome::kNoData ? Outcome::kRefused : host.outcome, {}, {}};
    if (host.outcome == Outcome::kNotFound) continue;
    out.ttl = std::min(out.ttl, host.ttl);
    for (const Record& address : host.records) {
      ResourceInstance instance{.name = instance_name(address.target, record->port),
                                .address = address.target,
                                .port = static_cast<Port>(record->port)};
      // Weight 0 is rare traffic (RFC 2782), while an Endpoint's 0 is none.
      if (weighted) instance.weight = std::max<std::uint32_t>(1, record->weight);
      out.resolution.instances.push_back(std::move(instance));
    }
  }
  if (out.resolution.instances.empty()) out.outcome = Outcome::kNoData;
  return out;
}

Found addresses(const Answer& answer) {
  Found out{answer.outcome, {}, answer.ttl};
  for (const Record& record : answer.records)
    out.resolution.instances.push_back(
        {.name = instance_name(record.target, 0), .address = record.target});
  return out;
}

void order(Resolution& resolution) {
  auto& list = resolution.instances;
  const auto by_name = [](const auto& a, const auto& b) { return a.name < b.name; };
  const auto same = [](const auto& a, const auto& b) { return a.name == b.name; };
  std::stable_sort(list.begin(), list.end(), by_name);
  list.erase(std::unique(list.begin(), list.end(), same), list.end());
}

}  // namespace

Status check_servers(const std::vector<std::string>& servers) {
  if (servers.size() > kMaxServers)
    return Error{ErrorCode::kInvalidArgument,
                 "more than " + std::to_string(kMaxServers) + " name servers; give fewer"};
  for (const std::string& server : servers) {
    if (!server_of(server))
      return Error{ErrorCode::kInvalidArgument,
                   "'" + server +
                       "' is no name server; give an IP address, with a port if it is not 53: "
                       "192.0.2.53, 192.0.2.53:5353 or [2001:db8::53]:53"};
  }
  return {};
}

Ask make_lookup(const LookupOptions& options) {
  return [options](const std::set<Question>& questions, const std::atomic<bool>& ended) {
    return ask_all(options, questions, ended);
  };
}

std::map<Question, Found> look_up(const std::set<Question>& questions, const Ask& ask,
                                  const std::atomic<bool>& ended) {
  const Answers first = ask(questions, ended);
  std::set<Question> hosts;
  for (const auto& [question, answer] : first)
    if (question.type == RecordType::kSrv)
      for (const Record* record : first_choice(answer))
        hosts.insert({RecordType::kA, record->target});
  const Answers second = hosts.empty() ? Answers() : ask(hosts, ended);
  std::map<Question, Found> out;
  for (const auto& [question, answer] : first) {
    Found found = question.type == RecordType::kSrv ? join(answer, second) : addresses(answer);
    order(found.resolution);
    out.emplace(question, std::move(found));
  }
  return out;
}

}  // namespace osm::inline v1::dns
