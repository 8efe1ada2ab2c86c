//! A request as the protocol writes it.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::message::{Ai, Block, Body, Image, Message};
use crate::model::{Format, Request, ToolChoice, ToolSpec};

/// The body of a request; `limit_name` is what the server calls the limit on written tokens.
pub(super) fn render<'a>(
    model: &'a str,
    request: &'a Request,
    limit_name: &'static str,
) -> Rendered<'a> {
    let settings = request.settings;
    let limit = settings
        .max_tokens
        .map(|limit| (limit_name.to_owned(), limit.into()));
    Rendered {
        model,
        messages: request
            .messages
            .iter()
            .map(|message| turn(message))
            .collect(),
        tools: request.tools.iter().map(|tool| function(tool)).collect(),
        tool_choice: match request.tool_choice {
            ToolChoice::Auto => None,
            ToolChoice::Required => Some("required"),
            ToolChoice::None => Some("none"),
        },
        response_format: request.format.as_ref().map(shape),
        temperature: settings.temperature,
        limit: Map::from_iter(limit),
        stream: true,
        stream_options: StreamOptions {
            include_usage: true,
        },
    }
}

/// Borrows what is large: the texts of the conversation and the schemas of the tools.
#[derive(Serialize)]
pub(super) struct Rendered<'a> {
    model: &'a str,
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(flatten)]
    limit: Map<String, Value>,
    stream: bool,
    stream_options: StreamOptions,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: &'static str,
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Known(KnownPart<'a>),
    Other(&'a Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum KnownPart<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: Cow<'a, str>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: Cow<'a, str>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

fn turn(message: &Message) -> Turn<'_> {
    let (role, tool_calls, tool_call_id) = match &message.body {
        Body::System => ("system", Vec::new(), None),
        Body::Human => ("user", Vec::new(), None),
        Body::Ai(ai) => ("assistant", calls(ai), None),
        Body::Tool(result) => ("tool", Vec::new(), Some(result.call_id.as_str())),
    };
    Turn {
        role,
        content: content(&message.content),
        // A tool's result is tied to its call by the id alone.
        name: message
            .name
            .as_deref()
            .filter(|_| tool_call_id.is_none())
            .map(speaker),
        tool_calls,
        tool_call_id,
    }
}

/// Text alone is written as a string: not every server takes parts.
fn content(blocks: &[Block]) -> Content<'_> {
    let parts: Vec<_> = blocks.iter().filter_map(part).collect();
    match parts.as_slice() {
        [] => Content::Text(""),
        [Part::Known(KnownPart::Text { text })] => Content::Text(text),
        _ => Content::Parts(parts),
    }
}

fn part(block: &Block) -> Option<Part<'_>> {
    Some(match block {
        Block::Text(text) => Part::Known(KnownPart::Text { text }),
        Block::Image(image) => Part::Known(KnownPart::ImageUrl {
            image_url: ImageUrl {
                url: address(image),
            },
        }),
        Block::Other(json) => Part::Other(&json.0),
        Block::Reasoning { .. } => return None,
    })
}

fn address(image: &Image) -> Cow<'_, str> {
    match image {
        Image::Url(url) => Cow::Borrowed(url),
        Image::Data { mime, base64 } => Cow::Owned(format!("data:{mime};base64,{base64}")),
    }
}

/// Names the speaker without the characters that the protocol forbids in names.
fn speaker(name: &str) -> Cow<'_, str> {
    let forbidden = |c: char| c.is_whitespace() || c.is_control() || "<|\\/>".contains(c);
    match name.contains(forbidden) {
        true => Cow::Owned(name.replace(forbidden, "_")),
        false => Cow::Borrowed(name),
    }
}

/// Invalid calls go along, since the message that says what was wrong with them answers their id.
fn calls(ai: &Ai) -> Vec<Call<'_>> {
    let valid = ai.tool_calls.iter();
    let valid = valid.map(|call| (&call.id, &call.name, Cow::Owned(call.args.to_string())));
    let invalid = ai.invalid_tool_calls.iter();
    let invalid = invalid.map(|call| (&call.id, &call.name, Cow::Borrowed(call.args.as_str())));
    valid
        .chain(invalid)
        .map(|(id, name, arguments)| Call {
            id,
            r#type: "function",
            function: CalledFunction {
                // An empty name is refused, and the conversation could never go on.
                name: if name.is_empty() { "unnamed" } else { name },
                arguments,
            },
        })
        .collect()
}

fn function(tool: &ToolSpec) -> Tool<'_> {
    Tool {
        r#type: "function",
        function: Function {
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.parameters,
        },
    }
}

fn shape(format: &Format) -> Value {
    let mut shape = json!({ "name": format.name, "schema": format.schema });
    if format.strict {
        shape["strict"] = true.into();
    }
    json!({ "type": "json_schema", "json_schema": shape })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use superstep_channels::Json;

    use super::*;
    use crate::message::{InvalidToolCall, ToolCall};
    use crate::model::Settings;

    fn rendered(request: &Request) -> Value {
        serde_json::to_value(render("m", request, "max_tokens")).unwrap()
    }

    #[test]
    fn a_small_request_has_nothing_extra() {
        let request = Request::new([Message::human("Hi").into()]);
        assert_eq!(
            rendered(&request),
            json!({
                "model": "m",
                "messages": [{ "role": "user", "content": "Hi" }],
                "stream": true,
                "stream_options": { "include_usage": true },
            })
        );
    }

    #[test]
    fn a_request_with_everything() {
        let mut human = Message::human("Look:").with_name("Eve O'Neil/2");
        human.content.extend([
            Block::Image(Image::Url("http://h/p.png".into())),
            Block::Image(Image::Data {
                mime: "image/png".into(),
                base64: "AA==".into(),
            }),
            Block::Other(Json(json!({ "type": "file", "file": {} }))),
        ]);
        let mut ai = Message::ai_calls("", [ToolCall::new("c0", "ls", json!({ "p": "/" }))]);
        ai.content.push(Block::Reasoning {
            text: "hm".into(),
            signature: None,
        });
        if let Body::Ai(ai) = &mut ai.body {
            ai.invalid_tool_calls.push(InvalidToolCall {
                id: "c1".into(),
                name: String::new(),
                args: "{".into(),
                reason: "cut".into(),
            });
        }
        let mut two = Message::tool("c1", "no");
        two.content.push("pe".into());
        let messages = [
            Message::system("Be brief."),
            human,
            ai,
            Message::tool("c0", "a").with_name("ls"),
            two,
        ];
        let request = Request {
            messages: messages.map(Arc::new).into(),
            tools: vec![Arc::new(ToolSpec {
                name: "ls".into(),
                description: "Lists.".into(),
                parameters: json!({ "type": "object" }),
            })],
            tool_choice: ToolChoice::Required,
            format: Some(Format {
                name: "answer".into(),
                schema: json!({ "type": "object" }),
                strict: true,
            }),
            settings: Settings {
                temperature: Some(0.5),
                max_tokens: Some(7),
            },
        };
        assert_eq!(
            rendered(&request),
            json!({
                "model": "m",
                "messages": [
                    { "role": "system", "content": "Be brief." },
                    { "role": "user", "name": "Eve_O'Neil_2", "content": [
                        { "type": "text", "text": "Look:" },
                        { "type": "image_url", "image_url": { "url": "http://h/p.png" } },
                        { "type": "image_url", "image_url": { "url": "data:image/png;base64,AA==" } },
                        { "type": "file", "file": {} },
                    ] },
                    { "role": "assistant", "content": "", "tool_calls": [
                        { "id": "c0", "type": "function", "function": { "name": "ls", "arguments": "{\"p\":\"/\"}" } },
                        { "id": "c1", "type": "function", "function": { "name": "unnamed", "arguments": "{" } },
                    ] },
                    { "role": "tool", "content": "a", "tool_call_id": "c0" },
                    { "role": "tool", "tool_call_id": "c1", "content": [
                        { "type": "text", "text": "no" },
                        { "type": "text", "text": "pe" },
                    ] },
                ],
                "tools": [{ "type": "function", "function": {
                    "name": "ls", "description": "Lists.", "parameters": { "type": "object" },
                } }],
                "tool_choice": "required",
                "response_format": { "type": "json_schema", "json_schema": {
                    "name": "answer", "schema": { "type": "object" }, "strict": true,
                } },
                "temperature": 0.5,
                "max_tokens": 7,
                "stream": true,
                "stream_options": { "include_usage": true },
            })
        );
    }
}
