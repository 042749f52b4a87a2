#include "app/lab/lab_store.h"

#include <QByteArray>
#include <QCryptographicHash>
#include <QSaveFile>
#include <algorithm>
#include <fstream>
#include <iterator>

#include "app/lab/experiment.h"
#include "app/lab/lab_json.h"
#include "app/text.h"

namespace vitrine::app::lab {

using engine::ErrorCode;
using engine::fail;
using engine::Result;

LabStore::LabStore(std::filesystem::path folder, const Subject& subject)
    : m_folder(std::move(folder)), m_key(subject.key()) {
  const QByteArray hash =
      QCryptographicHash::hash(QByteArray::fromStdString(m_key), QCryptographicHash::Sha256);
  m_file = m_folder / (hash.toHex().left(24).toStdString() + ".json");
}

std::vector<LabRow> LabStore::rows() const {
  std::ifstream in(m_file, std::ios::binary);
  if (!in) return {};
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("key", std::string()) != m_key ||
      !json.value("rows", Json()).is_array()) {
    return {};
  }
  std::vector<LabRow> rows;
  for (const Experiment& experiment : experiments()) {
    for (const Json& each : json["rows"]) {
      auto row = rowFromJson(each);
      if (row && row->id == experiment.id) {
        rows.push_back(std::move(*row));
        break;
      }
    }
  }
  return rows;
}

Result<void> LabStore::keep(const LabRow& row) {
  std::vector<LabRow> all = rows();
  std::erase_if(all, [&](const LabRow& each) { return each.id == row.id; });
  all.push_back(row);
  return write(all);
}

void LabStore::drop(const std::vector<std::string>& ids) {
  std::vector<LabRow> left = rows();
  std::erase_if(left, [&](const LabRow& each) {
    return ids.empty() || std::find(ids.begin(), ids.end(), each.id) != ids.end();
  });
  if (left.empty()) {
    std::error_code ignored;
    std::filesystem::remove(m_file, ignored);
  } else {
    (void)write(left);
  }
}

Result<void> LabStore::write(const std::vector<LabRow>& rows) const {
  Json list = Json::array();
  for (const LabRow& each : rows) list.push_back(toJson(each));
  const std::string text = Json{{"key", m_key}, {"rows", std::move(list)}}.dump(
      1, ' ', false, Json::error_handler_t::replace);
  std::error_code error;
  std::filesystem::create_directories(m_folder, error);
  QSaveFile file(displayPath(m_file));
  if (!file.open(QIODevice::WriteOnly) ||
      file.write(text.data(), static_cast<qint64>(text.size())) < 0 || !file.commit()) {
    return fail(ErrorCode::kIo, "cannot write {}: {}", m_file.string(), toUtf8(file.errorString()));
  }
  return {};
}

}  // namespace vitrine::app::lab
