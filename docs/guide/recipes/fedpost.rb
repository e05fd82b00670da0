# The recipe for Rails of docs/guide.md. It needs Ruby's standard library only.
#
# usage: fedpost.rb INBOX...     (FEDPOST_URL, FEDPOST_API_TOKEN)
require "json"
require "net/http"

module Fedpost
  Unavailable = Class.new(StandardError) # try again, with the same key
  Refused = Class.new(StandardError)     # the request is wrong

  # Hands over one activity. `once` is the deduplication key: a repeated call sends nothing twice.
  def self.deliver(activity, key_id:, inboxes:, once:)
    uri = URI.join(ENV.fetch("FEDPOST_URL"), "/v1/activities")
    post = Net::HTTP::Post.new(uri, "Content-Type" => "application/json", "Authorization" => "Bearer #{ENV.fetch("FEDPOST_API_TOKEN")}")
    post.body = JSON.generate(activity: activity, keyId: key_id, recipients: inboxes, deduplicationKey: once)
    answer = Net::HTTP.start(uri.host, uri.port, use_ssl: uri.scheme == "https", open_timeout: 5, read_timeout: 30) { |http| http.request(post) }
    case answer.code.to_i
    when 202 then JSON.parse(answer.body).fetch("id")
    when 409, 429, 500.. then raise Unavailable, answer.body
    else raise Refused, answer.body
    end
  rescue SystemCallError, SocketError, Timeout::Error, IOError => err
    raise Unavailable, err.message
  end
end

if $PROGRAM_NAME == __FILE__
  actor = "https://social.example/users/frida"
  like = { id: "#{actor}/likes/1", type: "Like", actor: actor, object: ARGV[0] }
  key = { key_id: "#{actor}#main-key", inboxes: ARGV, once: "like 1" }
  first = Fedpost.deliver(like, **key)
  puts "sent #{first}"
  puts "again #{Fedpost.deliver(like, **key) == first}"
  begin
    Fedpost.deliver(like, **key, inboxes: ["no inbox"], once: "like 2")
  rescue Fedpost::Refused => err
    puts "refused #{JSON.parse(err.message)["errors"][0]["pointer"]}"
  end
  ENV["FEDPOST_URL"] = "http://127.0.0.1:1"
  begin
    Fedpost.deliver(like, **key)
  rescue Fedpost::Unavailable
    puts "unavailable"
  end
end
