// The part of an API server that informers use, for a synthetic cluster: GET of a resource in all
// namespaces with limit and continue, or with watch and resourceVersion. A thread for each
// connection.
#pragma once

#include <openssl/ssl.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api_server_process.hpp"
#include "osm/result.hpp"
#include "synthetic_cluster.hpp"

namespace osm::bench {

class SyntheticApiServer {
 public:
  // Makes its certificates, listens and serves until the process ends. Blocking: until it listens.
  static Result<std::unique_ptr<SyntheticApiServer>> start(const ClusterSize& size,
                                                           const std::string& directory);

  const std::string& kubeconfig() const { return kubeconfig_; }

  void happen(Happening what, int count);
  void expire(std::size_t watches);
  ApiServerProcess::Parsing parse_everything();

 private:
  struct Connection;
  struct Item {
    ObjectState state;
    std::string text;  // of the object; written when it is first asked for
  };

  explicit SyntheticApiServer(const ClusterSize& size) : cluster_(size) {}
  Status prepare_tls(const std::string& directory);
  Status listen(const std::string& directory);
  void accept_all();
  void serve(std::shared_ptr<Connection> connection);
  // Result: false: the connection is a watch's from now on.
  bool answer(const std::shared_ptr<Connection>& connection, const std::string& target);

  // Precondition of all: mutex_ held.
  std::vector<Item>& items(const std::string& plural);
  const std::string& text(const std::string& plural, int index);
  // The page that begins at `from`; `limit` 0: all in one.
  std::string page(const std::string& plural, int from, int limit);
  void tell(const std::string& plural, int index);

  SyntheticCluster cluster_;
  std::string kubeconfig_;
  std::shared_ptr<SSL_CTX> tls_;
  int listener_ = -1;

  std::mutex mutex_;
  int version_ = 1;
  std::map<std::string, std::vector<Item>> items_;  // by plural
  std::map<std::string, std::shared_ptr<Connection>> watches_;
  std::condition_variable watched_;  // another watch was opened
};

}  // namespace osm::bench
