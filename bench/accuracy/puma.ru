# Puma: a thread of its pool for each request, calls by Net::HTTP. See python/program.py for the
# notes.
require "digest"
require "net/http"
require "securerandom"

LEAF_PORT = Integer(ENV.fetch("LEAF_PORT"))
PARALLEL = ENV["FAN_OUT"] == "parallel"
FRESH = ENV["CONNECTIONS"] == "fresh"
TRUTH = File.open(ENV.fetch("TRUTH"), "a")
IDLE = Queue.new

def tokens = Array.new(PARALLEL ? 3 : 2) { SecureRandom.hex(8) }

def note(path, made)
  TRUTH.syswrite("#{path.rpartition("/").last} #{made.join(" ")}\n")
end

def work(text) = Digest::SHA256.hexdigest(text + "\0" * 4096)

def connect = Net::HTTP.new("127.0.0.1", LEAF_PORT).tap { |http| http.keep_alive_timeout = 60 }.start

def call(token)
  path = "/leaf/#{token}"
  return Net::HTTP.get(URI("http://127.0.0.1:#{LEAF_PORT}#{path}")) if FRESH
  http = IDLE.empty? ? connect : (IDLE.pop(true) rescue connect)
  http.get(path).body.tap { IDLE << http }
end

if ENV["BACKGROUND"]
  Thread.new do
    loop do
      token = tokens.first
      note("-", [token])
      call(token)
      sleep(0.005)
    end
  end
end

run(lambda do |request|
  path = request["PATH_INFO"]
  made = tokens
  work(path)
  replies = if PARALLEL
    made.map { |token| Thread.new { call(token) } }.map(&:value)
  else
    made.map { |token| call(token).tap { sleep(rand * 0.003) } }
  end
  note(path, made)
  [200, { "Content-Type" => "text/plain" }, [work(replies.join)]]
end)
