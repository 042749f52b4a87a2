#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace vitrine::test {

/// A connection to loopback, byte by byte: what a library would not send can be sent, too.
class Connection final {
 public:
  explicit Connection(int port, int timeoutSeconds = 60) {
    m_socket = socket(AF_INET, SOCK_STREAM, 0);
    timeval timeout{timeoutSeconds, 0};
    setsockopt(m_socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(m_socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    m_connected = connect(m_socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Connection() { close(); }
  Connection(Connection&& other) noexcept : m_socket(other.m_socket) { other.m_socket = -1; }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool isConnected() const { return m_connected; }
  bool write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(m_socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  /// What has come; empty at the end of the connection.
  std::string readSome() {
    std::string buffer(65536, '\0');
    const ssize_t size = recv(m_socket, buffer.data(), buffer.size(), 0);
    buffer.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return buffer;
  }
  std::string readAll() {
    std::string all;
    for (std::string part = readSome(); !part.empty(); part = readSome()) all += part;
    return all;
  }
  void close() {
    if (m_socket >= 0) ::close(m_socket);
    m_socket = -1;
  }

 private:
  int m_socket = -1;
  bool m_connected = false;
};

struct HttpAnswer {
  int status = 0;
  std::string head, body;
  nlohmann::json json() const { return nlohmann::json::parse(body, nullptr, false); }
  std::string error() const {
    const auto j = json();
    return j.is_object() && j.contains("error") ? j["error"].value("message", "") : std::string();
  }
};

inline HttpAnswer parseAnswer(const std::string& raw) {
  HttpAnswer answer;
  const std::size_t end = raw.find("\r\n\r\n");
  if (raw.compare(0, 9, "HTTP/1.1 ") != 0 || end == std::string::npos) return answer;
  answer.status = std::atoi(raw.c_str() + 9);
  answer.head = raw.substr(0, end);
  std::string rest = raw.substr(end + 4);
  std::string lower = answer.head;
  std::transform(lower.begin(), lower.end(), lower.begin(), ::tolower);
  if (lower.find("transfer-encoding: chunked") == std::string::npos) {
    answer.body = rest;
    return answer;
  }
  for (std::size_t at = 0; at < rest.size();) {
    const std::size_t size = std::strtoul(rest.c_str() + at, nullptr, 16);
    at = rest.find("\r\n", at) + 2;
    if (size == 0) break;
    answer.body += rest.substr(at, size);
    at += size + 2;
  }
  return answer;
}

inline std::string requestText(const std::string& method, const std::string& path,
                               const std::string& body, const std::string& headers = {}) {
  return method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" + headers +
         (method == "POST" ? "Content-Length: " + std::to_string(body.size()) + "\r\n" : "") +
         "\r\n" + body;
}

inline HttpAnswer request(int port, const std::string& method, const std::string& path,
                          const std::string& body = {}, const std::string& headers = {}) {
  Connection connection(port);
  connection.write(requestText(method, path, body, headers));
  return parseAnswer(connection.readAll());
}

inline HttpAnswer post(int port, const std::string& path, const nlohmann::json& body) {
  return request(port, "POST", path, body.dump(), "Content-Type: application/json\r\n");
}

/// The events of a stream, "[DONE]" left out but counted.
struct StreamAnswer {
  int status = 0;
  std::vector<nlohmann::json> chunks;
  std::string text, finishReason;
  int done = 0;
  bool isSound = true;  ///< each event is valid JSON after "data: ", and nothing follows [DONE]
};

inline StreamAnswer parseStream(const HttpAnswer& answer) {
  StreamAnswer out;
  out.status = answer.status;
  for (std::size_t at = 0; at < answer.body.size();) {
    const std::size_t end = answer.body.find("\n\n", at);
    if (end == std::string::npos) {
      out.isSound = false;
      break;
    }
    const std::string event = answer.body.substr(at, end - at);
    at = end + 2;
    if (event == "data: [DONE]") {
      ++out.done;
      continue;
    }
    auto json =
        nlohmann::json::parse(event.substr(std::min<std::size_t>(6, event.size())), nullptr, false);
    if (event.compare(0, 6, "data: ") != 0 || !json.is_object() || out.done > 0) {
      out.isSound = false;
      continue;
    }
    for (const auto& choice : json.value("choices", nlohmann::json::array())) {
      if (choice.contains("delta")) out.text += choice["delta"].value("content", "");
      if (choice.contains("text")) out.text += choice.value("text", "");
      if (choice["finish_reason"].is_string()) out.finishReason = choice["finish_reason"];
    }
    out.chunks.push_back(std::move(json));
  }
  return out;
}

inline StreamAnswer stream(int port, const std::string& path, nlohmann::json body) {
  body["stream"] = true;
  return parseStream(post(port, path, body));
}

}  // namespace vitrine::test
